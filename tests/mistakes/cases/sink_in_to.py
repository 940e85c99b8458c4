# A sink in to.
# $ wallaroo check application.py
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to(SINK))
