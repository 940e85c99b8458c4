# A file with a schema that does not exist, and then one that is invalid.
# $ wallaroo check application.py
# $ wallaroo check other.py
# + other.py: b"from application import *\nfrom wallaroo.codecs import avro_decoder\n\ndef application_setup(args):\n    return avro_decoder(schema='{\"type\": \"rekord\"}')\n"
from pathlib import Path

import wallaroo
from parts import SINK, built
from wallaroo.codecs import avro_decoder


def application_setup(args):
    decoder = avro_decoder(schema=Path("trade.avsc"))
    return built(wallaroo.source("trades", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decoder)).to_sink(SINK))
