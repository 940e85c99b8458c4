# Workers as a word.
# $ wallaroo run application.py --workers two
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
