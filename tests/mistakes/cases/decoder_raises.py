# A decoder that raises.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import SINK, built


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode_number(payload):
    return int(payload)


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode_number)).to_sink(SINK))
