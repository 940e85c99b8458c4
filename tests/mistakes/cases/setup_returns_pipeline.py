# application_setup that returns a pipeline.
# $ wallaroo check application.py
from parts import LINES, SINK


def application_setup(args):
    return LINES.to_sink(SINK)
