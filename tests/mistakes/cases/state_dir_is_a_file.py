# --state-dir with a file.
# $ wallaroo run application.py --state-dir application.py
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
