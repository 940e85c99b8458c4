# An encoder in the place of a decoder.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, encode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, encode)).to_sink(SINK))
