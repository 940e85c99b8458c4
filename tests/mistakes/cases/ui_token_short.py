# A token that is too short.
# $ wallaroo run application.py --ui-token-file token
# + token: b"secret\n"
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
