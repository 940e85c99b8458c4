# An option of the application without --.
# $ wallaroo check application.py --in 127.0.0.1:7010
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
