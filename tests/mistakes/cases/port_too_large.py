# A port beyond 65535.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 70100, decode)).to_sink(SINK))
