# A dictionary for an encoder of Protobuf, and a decoder of a class that is not of Protobuf.
# $ wallaroo simulate application.py
# < ada
# $ wallaroo check other.py
# + other.py: b"from wallaroo.codecs import protobuf_decoder\n\ndef application_setup(args):\n    return protobuf_decoder(dict)\n"
import wallaroo
from parts import LINES, built
from wallaroo.codecs import protobuf_encoder


@wallaroo.computation(name="counted")
def counted(line):
    return {"line": line}


def application_setup(args):
    return built(LINES.to(counted).to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, protobuf_encoder())))
