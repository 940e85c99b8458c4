# An application and a pipeline with empty names.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, decode


def application_setup(args):
    source = wallaroo.TCPSourceConfig("127.0.0.1", 7001, decode)
    return wallaroo.build_application("", wallaroo.source(" ", source).to_sink(SINK))
