# A token file that does not exist.
# $ wallaroo run application.py --ui-token-file token
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
