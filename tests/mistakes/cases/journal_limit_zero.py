# A journal without room.
# $ wallaroo run application.py --journal-limit-gib 0
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
