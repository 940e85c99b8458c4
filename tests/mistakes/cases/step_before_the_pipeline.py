# A step before new_pipeline.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, decode


@wallaroo.computation(name="shout")
def shout(line):
    return line.upper()


def application_setup(args):
    builder = wallaroo.ApplicationBuilder("Mistake")
    builder.to(shout)
    builder.new_pipeline("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode))
    builder.to_sink(SINK)
    return builder.build()
