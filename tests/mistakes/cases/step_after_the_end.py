# A step after to_sink.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="shout")
def shout(line):
    return line.upper()


def application_setup(args):
    return built(LINES.to_sink(SINK).to(shout))
