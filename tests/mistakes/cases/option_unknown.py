# A misspelt option.
# $ wallaroo run application.py --worker 2
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
