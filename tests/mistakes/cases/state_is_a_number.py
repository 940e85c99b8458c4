# A class whose instances cannot be changed as a state.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, word


@wallaroo.state_computation(name="count", state=int)
def count(line, total):
    total += 1
    return str(total)


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
