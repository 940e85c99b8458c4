# An encoder that raises.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, built


@wallaroo.encoder
def encode_number(line):
    return line + 1


def application_setup(args):
    return built(LINES.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode_number)))
