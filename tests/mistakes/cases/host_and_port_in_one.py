# Host and port in one text.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1:7010", decode)).to_sink(SINK))
