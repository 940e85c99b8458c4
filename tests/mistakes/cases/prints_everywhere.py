# print at every place.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import built, decode

print("on import")


class Noisy:
    def __init__(self):
        print("a new entity")


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode_noisily(payload):
    print("decoding")
    return payload.decode()


@wallaroo.computation(name="shout")
def shout(line):
    print("computing")
    return line.upper()


@wallaroo.key_extractor
def noisy_word(line):
    print("taking the key")
    return line


@wallaroo.state_computation(name="count", state=Noisy)
def count(line, noisy):
    print("counting")
    return line


@wallaroo.encoder
def encode_noisily(line):
    print("encoding")
    return line + "\n"


def application_setup(args):
    print("in application_setup")
    lines = wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode_noisily))
    counts = lines.to(shout).key_by(noisy_word).to(count)
    return built(counts.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode_noisily)))
