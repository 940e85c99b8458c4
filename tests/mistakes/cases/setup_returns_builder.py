# application_setup that returns the builder.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, decode


def application_setup(args):
    builder = wallaroo.ApplicationBuilder("Mistake")
    builder.new_pipeline("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode)).to_sink(SINK)
    return builder
