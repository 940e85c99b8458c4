# An encoder with a schema registry, but without a subject.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, built
from wallaroo.codecs import SchemaRegistry, avro_encoder


def application_setup(args):
    encoder = avro_encoder(registry=SchemaRegistry("http://127.0.0.1:8081"))
    return built(LINES.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, encoder)))
