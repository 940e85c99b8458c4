# Partitions below one.
# $ wallaroo run application.py --partitions -4
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
