# --gateway without a port.
# $ wallaroo run application.py --gateway localhost
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
