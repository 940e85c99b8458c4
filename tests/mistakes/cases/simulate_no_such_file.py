# A file of messages that does not exist.
# $ wallaroo simulate application.py --from messages.txt
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
