# An encoder that is a coroutine.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, built


@wallaroo.encoder
async def encode(line):
    return line


SINK = wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode)


def application_setup(args):
    return built(LINES.to_sink(SINK))
