# A negative interval.
# $ wallaroo simulate application.py --interval -1
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
