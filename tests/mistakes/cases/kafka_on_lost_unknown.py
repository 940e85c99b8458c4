# An unknown on_lost.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.KafkaSourceConfig("lines", "broker:9092", decode, on_lost="ignore")).to_sink(SINK))
