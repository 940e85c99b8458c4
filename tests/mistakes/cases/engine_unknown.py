# An engine that does not exist.
# $ wallaroo run application.py --engine streaming
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
