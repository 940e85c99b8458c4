# send to an address without a port.
# $ wallaroo send - --to localhost
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
