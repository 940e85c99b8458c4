# merge with a source's configuration.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, decode

OTHERS = wallaroo.TCPSourceConfig("127.0.0.1", 7011, decode)


def application_setup(args):
    return built(LINES.merge(OTHERS).to_sink(SINK))
