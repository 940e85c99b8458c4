# A broker with a bad port.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.KafkaSourceConfig("lines", "broker:port", decode)).to_sink(SINK))
