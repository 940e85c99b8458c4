# Two sources of one name.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, decode

OTHERS = wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7011, decode))


def application_setup(args):
    return wallaroo.build_application("Mistake", LINES.to_sink(SINK), OTHERS.to_sink(SINK))
