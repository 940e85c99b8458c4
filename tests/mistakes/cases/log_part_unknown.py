# A part of the log that does not exist.
# $ wallaroo run application.py --log-level info,sparks=debug
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
