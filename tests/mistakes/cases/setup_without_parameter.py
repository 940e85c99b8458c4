# application_setup without a parameter.
# $ wallaroo check application.py
from parts import LINES, SINK, built


def application_setup():
    return built(LINES.to_sink(SINK))
