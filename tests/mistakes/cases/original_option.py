# An option of the original Wallaroo.
# $ wallaroo run application.py --ponythreads=2
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
