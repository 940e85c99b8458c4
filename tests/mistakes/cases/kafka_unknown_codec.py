# Records that are to be compressed with a codec that there is not.
# $ wallaroo check application.py
import wallaroo
from parts import built


def decode(value):
    return value


ORDERS = wallaroo.KafkaSourceConfig("orders", "127.0.0.1:9092", decode)


@wallaroo.encoder
def encode(output):
    return output


SINK = wallaroo.KafkaSinkConfig(
    "results", "127.0.0.1:9092", encode, settings={"compression.type": "zzz"}
)


def application_setup(args):
    return built(wallaroo.source("Orders", ORDERS).to_sink(SINK))
