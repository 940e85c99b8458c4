# A time that is a text.
# $ wallaroo simulate application.py --from lines=- --until 60
# < a
import wallaroo
from parts import LINES, SINK, built, decode, word

WORDS = wallaroo.source("words", wallaroo.TCPSourceConfig("127.0.0.1", 7011, decode))


@wallaroo.asof_join(
    name="both",
    tolerance=wallaroo.seconds(5),
    left_time=str,
    right_time=str,
    delay=wallaroo.seconds(0),
)
def both(line, other):
    return line + other


def application_setup(args):
    return built(LINES.key_by(word).join(WORDS.key_by(word), both).to_sink(SINK))
