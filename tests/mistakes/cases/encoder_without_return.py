# An encoder and a key extractor without return.
# $ wallaroo check application.py
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, Total, built


@wallaroo.key_extractor
def first(line):
    line[:1]


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    total.count += 1
    return total.count


@wallaroo.encoder
def encode(count):
    b"%d\n" % count


def application_setup(args):
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode)
    return built(LINES.key_by(first).to(count).to_sink(sink))
