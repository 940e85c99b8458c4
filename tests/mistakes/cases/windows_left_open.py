# Windows that are still open at the end.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built, word


class Count(wallaroo.Aggregation):
    def initial_accumulator(self):
        return 0

    def update(self, line, count):
        return count + 1

    def combine(self, one, other):
        return one + other

    def output(self, key, count):
        return f"{key}: {count}"


def application_setup(args):
    windows = wallaroo.range_windows(wallaroo.seconds(10)).over(Count)
    return built(LINES.key_by(word).to(windows).to_sink(SINK))
