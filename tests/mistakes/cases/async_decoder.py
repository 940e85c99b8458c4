# A decoder that is a coroutine.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built


@wallaroo.decoder(header_length=4, length_fmt=">I")
async def decode(payload):
    return payload.decode()


LINES = wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode))


def application_setup(args):
    return built(LINES.to_sink(SINK))
