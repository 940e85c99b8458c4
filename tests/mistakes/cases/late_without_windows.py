# late() of a pipeline without windows.
# $ wallaroo check application.py
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.late().to_sink(SINK))
