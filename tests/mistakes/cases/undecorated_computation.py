# A computation without its decorator.
# $ wallaroo check application.py
from parts import LINES, SINK, built


def shout(line):
    return line.upper()


def application_setup(args):
    return built(LINES.to(shout).to_sink(SINK))
