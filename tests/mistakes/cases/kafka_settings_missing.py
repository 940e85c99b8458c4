# A file with settings that is not there.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built

ORDERS = wallaroo.KafkaSourceConfig(
    "orders", ["127.0.0.1:9092"], bytes.decode, settings_file="kafka.properties"
)


def application_setup(args):
    return built(wallaroo.source("Orders", ORDERS).to_sink(SINK))
