# new into a directory that has files.
# $ wallaroo new taken
# + taken/notes.txt: b"mine"
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
