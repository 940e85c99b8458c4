# application_setup without return.
# $ wallaroo check application.py
from parts import LINES, SINK, built


def application_setup(args):
    built(LINES.to_sink(SINK))
