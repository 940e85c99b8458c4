# A key that is a list.
# $ wallaroo simulate application.py
# < ada lovelace
import wallaroo
from parts import LINES, SINK, Total, built


@wallaroo.key_extractor
def names(line):
    return line.split()


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    return line


def application_setup(args):
    return built(LINES.key_by(names).to(count).to_sink(SINK))
