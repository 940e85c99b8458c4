# send without an address.
# $ wallaroo send -
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
