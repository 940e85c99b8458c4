# A source of a file that does not exist.
# $ wallaroo simulate application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.FileSourceConfig("missing.txt", decode, "lines")).to_sink(SINK))
