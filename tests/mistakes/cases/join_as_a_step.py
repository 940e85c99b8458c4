# A join given to to().
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, word


@wallaroo.table_join(name="both")
def both(line, other):
    return line + other


def application_setup(args):
    return built(LINES.key_by(word).to(both).to_sink(SINK))
