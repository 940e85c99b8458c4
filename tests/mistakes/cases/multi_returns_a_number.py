# A computation_multi that returns a number.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation_multi(name="lengths")
def lengths(line):
    return len(line)


def application_setup(args):
    return built(LINES.to(lengths).to_sink(SINK))
