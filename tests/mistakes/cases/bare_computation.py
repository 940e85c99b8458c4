# @computation without its arguments.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation
def shout(line):
    return line.upper()


def application_setup(args):
    return built(LINES.to(shout).to_sink(SINK))
