# sys.exit in a decoder.
# $ wallaroo simulate application.py
# < ada
import sys

import wallaroo
from parts import SINK, built


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode_or_exit(payload):
    sys.exit("cannot go on")


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode_or_exit)).to_sink(SINK))
