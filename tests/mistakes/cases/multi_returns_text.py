# A computation_multi that returns a text.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation_multi(name="split")
def split(line):
    return line


def application_setup(args):
    return built(LINES.to(split).to_sink(SINK))
