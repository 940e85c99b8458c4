# application_setup that yields its application.
# $ wallaroo check application.py
from parts import LINES, SINK, built


def application_setup(args):
    yield built(LINES.to_sink(SINK))
