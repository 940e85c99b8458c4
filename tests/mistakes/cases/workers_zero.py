# No workers.
# $ wallaroo run application.py --workers 0
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
