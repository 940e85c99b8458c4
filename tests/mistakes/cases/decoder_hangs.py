# The decoder does not return for the first line of the file.
# $ wallaroo check application.py --function-timeout 0.2
# + lines.txt: b"one\n"

import threading

import wallaroo
from parts import SINK, Total, built, word


def wait():
    threading.Event().wait()


@wallaroo.decoder(header_length=4, length_fmt=">I", repeatable=True)
def decode(payload):
    wait()
    return payload.decode()


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    return line


def application_setup(args):
    lines = wallaroo.source("lines", wallaroo.FileSourceConfig("lines.txt", decode, "lines"))
    return built(lines.key_by(word).to(count).to_sink(SINK))
