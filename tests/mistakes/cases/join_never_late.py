# late() of a table join.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, decode, word

WORDS = wallaroo.source("words", wallaroo.TCPSourceConfig("127.0.0.1", 7011, decode))


@wallaroo.table_join(name="both")
def both(line, other):
    return line + other


def application_setup(args):
    joined = LINES.key_by(word).join(WORDS.key_by(word), both)
    return built(joined.late().to_sink(SINK))
