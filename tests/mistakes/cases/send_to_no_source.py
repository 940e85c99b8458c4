# The application that is sent to has no TCP source.
# $ wallaroo send - application.py --to 127.0.0.1:7013
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    lines = wallaroo.source("lines", wallaroo.FileSourceConfig("lines.txt", decode, "lines"))
    return built(lines.to_sink(SINK))
