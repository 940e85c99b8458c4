# A password in the URL of a schema registry.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built
from wallaroo.codecs import SchemaRegistry, avro_decoder


def application_setup(args):
    decoder = avro_decoder(registry=SchemaRegistry("https://ada:secret@registry.example.org"))
    return built(wallaroo.source("trades", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decoder)).to_sink(SINK))
