# A source's configuration in to_sink.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, built, decode


def application_setup(args):
    return built(LINES.to_sink(wallaroo.TCPSourceConfig("127.0.0.1", 7002, decode)))
