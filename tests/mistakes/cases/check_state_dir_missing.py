# check with a state directory that does not exist.
# $ wallaroo check application.py --state-dir nowhere
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
