# A time that is not a number.
# $ wallaroo simulate application.py --until nan
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
