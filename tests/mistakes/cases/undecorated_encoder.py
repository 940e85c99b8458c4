# An encoder without its decorator.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, built


def encode_text(line):
    return line + "\n"


def application_setup(args):
    return built(LINES.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode_text)))
