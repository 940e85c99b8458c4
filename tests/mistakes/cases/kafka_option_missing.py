# No option for the topic.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    return built(wallaroo.source("lines", wallaroo.DefaultKafkaSourceCLIParser(decode)).to_sink(SINK))
