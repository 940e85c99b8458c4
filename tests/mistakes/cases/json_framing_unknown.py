# An encoder with a framing that does not exist.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, built
from wallaroo.codecs import json_encoder


def application_setup(args):
    return built(LINES.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, json_encoder(framing="line"))))
