# A directory in the place of messages.
# $ wallaroo simulate application.py --from .
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
