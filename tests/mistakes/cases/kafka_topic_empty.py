# A topic without a name.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.KafkaSourceConfig("", "broker:9092", decode)).to_sink(SINK))
