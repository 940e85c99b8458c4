# KafkaSinkConfig instead of KafkaDeadLetters.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK

LOST = wallaroo.KafkaSinkConfig("lost", "127.0.0.1:9092", str.encode)


def application_setup(args):
    return wallaroo.build_application("app", LINES.to_sink(SINK), dead_letters=LOST)
