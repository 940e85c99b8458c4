# A command that does not exist.
# $ wallaroo start application.py
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
