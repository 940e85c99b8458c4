# An option of the application without --, which resembles one of the command.
# $ wallaroo run application.py --port 7010
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
