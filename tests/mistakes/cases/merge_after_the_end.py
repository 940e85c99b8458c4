# merge after to_sink.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, decode

OTHERS = wallaroo.source("others", wallaroo.TCPSourceConfig("127.0.0.1", 7011, decode))


def application_setup(args):
    return built(LINES.to_sink(SINK).merge(OTHERS.to_sink(SINK)))
