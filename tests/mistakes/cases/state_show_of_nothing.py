# state show of a directory that does not exist.
# $ wallaroo state show application.py ada --state-dir nowhere
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
