# A pipeline without a sink.
# $ wallaroo check application.py
from parts import LINES, built


def application_setup(args):
    return built(LINES)
