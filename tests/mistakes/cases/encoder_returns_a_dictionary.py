# An encoder that returns a dictionary.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, built


@wallaroo.encoder
def document(line):
    return {"line": line}


def application_setup(args):
    return built(LINES.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, document)))
