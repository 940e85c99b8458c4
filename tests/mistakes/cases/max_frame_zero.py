# A frame limit of zero.
# $ wallaroo run application.py --max-frame 0
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
