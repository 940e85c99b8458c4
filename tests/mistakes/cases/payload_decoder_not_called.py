# Functions that make decoders, in the place of decoders of sources without frames.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built
from wallaroo.codecs import csv_decoder, json_decoder


def application_setup(args):
    posts = wallaroo.source("posts", wallaroo.HTTPSourceConfig("127.0.0.1", 7010, decoder=json_decoder))
    lines = wallaroo.source("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7011, csv_decoder, framing="lines"))
    return built(posts.merge(lines).to_sink(SINK))
