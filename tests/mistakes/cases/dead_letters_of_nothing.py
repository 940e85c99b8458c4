# dead-letters of a directory that does not exist.
# $ wallaroo dead-letters list --state-dir nowhere
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
