# A function in the place of the name of a step.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


def shout(line):
    return line.upper()


def application_setup(args):
    return built(LINES.to(wallaroo.computation(shout)(shout)).to_sink(SINK))
