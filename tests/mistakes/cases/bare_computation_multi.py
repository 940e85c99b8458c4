# @computation_multi without its arguments.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation_multi
def split(line):
    return line.split()


def application_setup(args):
    return built(LINES.to(split).to_sink(SINK))
