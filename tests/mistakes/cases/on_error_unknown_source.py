# A policy for a source that does not exist.
# $ wallaroo run application.py --on-error orders=drop
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
