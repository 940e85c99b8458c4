# Lines where frames are expected.
# $ wallaroo simulate application.py --framing frames
# < ada
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
