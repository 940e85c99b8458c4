# A computation that raises.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="invert")
def invert(line):
    return 1 / 0


def application_setup(args):
    return built(LINES.to(invert).to_sink(SINK))
