# An option of librdkafka with a value that is not a number.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    source = wallaroo.KafkaSourceConfig("lines", "broker:9092", decode, settings={"fetch.min.bytes": "many"})
    return built(wallaroo.source("lines", source).to_sink(SINK))
