# An option of librdkafka that there is not; the decoder is a method of Python's own.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built


def application_setup(args):
    source = wallaroo.KafkaSourceConfig("lines", "broker:9092", bytes.decode, settings={"fetch.min.byte": 1})
    return built(wallaroo.source("lines", source).to_sink(SINK))
