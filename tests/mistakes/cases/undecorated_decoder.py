# A decoder of a TCP source without @decoder.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def decode_text(payload):
    return payload.decode()


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode_text)).to_sink(SINK))
