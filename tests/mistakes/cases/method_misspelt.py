# A method of a pipeline that does not exist.
# $ wallaroo check application.py
from parts import LINES, SINK, built, word


def application_setup(args):
    return built(LINES.keyby(word).to_sink(SINK))
