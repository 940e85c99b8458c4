# A key that is not a number.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, Total, built


@wallaroo.key_extractor
def score(line):
    return float("nan")


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    return line


def application_setup(args):
    return built(LINES.key_by(score).to(count).to_sink(SINK))
