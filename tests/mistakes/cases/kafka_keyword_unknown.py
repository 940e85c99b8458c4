# An option that the configuration does not have.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.KafkaSourceConfig("lines", "broker:9092", decode, group_id="x")).to_sink(SINK))
