# A state_computation_multi that returns a number.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, Total, built, word


@wallaroo.state_computation_multi(name="count", state=Total)
def count(line, total):
    total.count += 1
    return total.count


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
