# An unknown framing of a file.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.FileSourceConfig("lines.txt", decode, "csv")).to_sink(SINK))
