# A decoder of Avro that has no schema.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built
from wallaroo.codecs import avro_decoder


def application_setup(args):
    return built(wallaroo.source("trades", wallaroo.TCPSourceConfig("127.0.0.1", 7010, avro_decoder())).to_sink(SINK))
