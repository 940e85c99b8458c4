"""What the mistakes have around them: a source and a sink of lines of text, and their codecs."""

import wallaroo


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return payload.decode()


@wallaroo.encoder
def encode(line):
    return f"{line}\n"


@wallaroo.key_extractor
def word(line):
    return line


class Total:
    def __init__(self):
        self.count = 0


LINES = wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode))
SINK = wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode)


def built(pipeline):
    return wallaroo.build_application("Mistake", pipeline)
