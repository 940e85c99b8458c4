# A state computation that raises.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, Total, built, word


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    total.counts += 1
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
