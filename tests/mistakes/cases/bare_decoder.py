# @decoder without its arguments.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


@wallaroo.decoder
def decode_text(payload):
    return payload.decode()


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode_text)).to_sink(SINK))
