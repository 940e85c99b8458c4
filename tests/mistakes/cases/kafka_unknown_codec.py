# Records that are to be compressed with a codec that there is not.
# $ wallaroo check application.py
import wallaroo
from parts import built


def decode(value):
    return value


ORDERS = wallaroo.KafkaSourceConfig("orders", "127.0.0.1:9092", decode)
ENCODE = wallaroo.encoder(bytes)
SINK = wallaroo.KafkaSinkConfig(
    "results", "127.0.0.1:9092", ENCODE, settings={"compression.type": "zzz"}
)


def application_setup(args):
    return built(wallaroo.source("Orders", ORDERS).to_sink(SINK))
