# Functions with yield that return one value each.
# $ wallaroo check application.py
import wallaroo
from parts import built


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    yield payload.decode()


@wallaroo.key_extractor
def first(line):
    yield line[:1]


class Total:
    lines = 0


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    total.lines += 1
    yield total.lines


@wallaroo.encoder
def encode(lines):
    yield b"%d" % lines


def application_setup(args):
    source = wallaroo.TCPSourceConfig("127.0.0.1", 7001, decode)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode)
    return built(wallaroo.source("lines", source).key_by(first).to(count).to_sink(sink))
