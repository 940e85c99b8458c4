# A topic that is read from a negative time on.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built


def decode(value):
    return value


ORDERS = wallaroo.KafkaSourceConfig("orders", "127.0.0.1:9092", decode, start=-5)


def application_setup(args):
    return built(wallaroo.source("Orders", ORDERS).to_sink(SINK))
