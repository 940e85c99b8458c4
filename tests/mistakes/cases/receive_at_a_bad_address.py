# receive at an address without a port.
# $ wallaroo receive --listen localhost
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
