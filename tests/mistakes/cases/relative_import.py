# An application that imports as a package does.
# $ wallaroo check application.py
from .parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
