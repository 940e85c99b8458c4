# application_setup with two parameters.
# $ wallaroo check application.py
from parts import LINES, SINK, built


def application_setup(args, settings):
    return built(LINES.to_sink(SINK))
