# Functions of Python itself as decoder, key and computation, each of which fails.
# $ wallaroo simulate application.py
# < {
# < 3
# < "ada"
import json

import wallaroo
from parts import SINK, built

lines = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(header_length=4, length_fmt=">I")(json.loads))
length = wallaroo.key_extractor(len)
number = wallaroo.computation(name="number")(int)


def application_setup(args):
    read = wallaroo.source("lines", lines)
    return built(read.key_by(length).to(number).to_sink(SINK))
