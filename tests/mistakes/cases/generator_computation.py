# A computation with yield.
# $ wallaroo check application.py
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="split")
def split(line):
    yield from line.split()


def application_setup(args):
    return built(LINES.to(split).to_sink(SINK))
