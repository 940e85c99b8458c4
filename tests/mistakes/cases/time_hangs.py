# The time= of a file does not return.
# $ wallaroo check application.py --function-timeout 0.2
# + lines.txt: b"one\n"

import threading

import wallaroo
from parts import SINK, built, decode


def time_of(line):
    threading.Event().wait()


def application_setup(args):
    config = wallaroo.FileSourceConfig("lines.txt", decode, "lines", time=time_of)
    return built(wallaroo.source("lines", config).to_sink(SINK))
