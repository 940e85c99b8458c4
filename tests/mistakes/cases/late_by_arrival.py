# late() of windows without event time.
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


def application_setup(args):
    windows = wallaroo.range_windows(wallaroo.minutes(1)).over(Count)
    return built(LINES.key_by(word).to(windows).late().to_sink(SINK))
