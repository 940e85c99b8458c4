# The class of an aggregation that needs arguments.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, word


class Count(wallaroo.Aggregation):
    def initial_accumulator(self):
        return []

    def update(self, line, lines):
        lines.append(line)

    def combine(self, one, other):
        return one + other

    def output(self, key, lines):
        return f"{key}: {len(lines)}"


class Above(Count):
    def __init__(self, limit):
        self.limit = limit


def application_setup(args):
    windows = wallaroo.range_windows(wallaroo.minutes(1)).over(Above)
    return built(LINES.key_by(word).to(windows).to_sink(SINK))
