# A table that is read first, and never ends.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, decode, word

WORDS = wallaroo.source("words", wallaroo.TCPSourceConfig("127.0.0.1", 7011, decode))


@wallaroo.table_join(name="both", table_first=True)
def both(line, other):
    return line + other


def application_setup(args):
    return built(LINES.key_by(word).join(WORDS.key_by(word), both).to_sink(SINK))
