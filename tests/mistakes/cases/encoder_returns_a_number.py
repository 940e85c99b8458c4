# An encoder that returns a number.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, built


@wallaroo.encoder
def length(line):
    return len(line)


def application_setup(args):
    return built(LINES.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, length)))
