# A picture in a format that does not exist.
# $ wallaroo graph application.py --output picture.jpg
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
