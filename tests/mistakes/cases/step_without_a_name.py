# A step whose name is empty.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="")
def same(line):
    return line


def application_setup(args):
    return built(LINES.to(same).to_sink(SINK))
