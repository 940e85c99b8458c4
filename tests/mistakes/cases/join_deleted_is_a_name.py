# The name of a field as a function that tells which rows are deleted.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, decode, word

WORDS = wallaroo.source("words", wallaroo.TCPSourceConfig("127.0.0.1", 7011, decode))


@wallaroo.table_join(name="both", deleted="gone")
def both(line, other):
    return line + other


def application_setup(args):
    return built(LINES.key_by(word).join(WORDS.key_by(word), both).to_sink(SINK))
