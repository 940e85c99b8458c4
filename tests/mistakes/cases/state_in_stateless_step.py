# A computation with a parameter for the state.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, word


@wallaroo.computation(name="count")
def count(line, total):
    total.count += 1
    return total.count


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
