# A log level that does not exist.
# $ wallaroo run application.py --log-level verbose
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
