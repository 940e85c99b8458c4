# A start that Kafka does not know.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.KafkaSourceConfig("lines", "broker:9092", decode, start="beginning")).to_sink(SINK))
