# Windows without key_by.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


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
    return built(LINES.to(windows).to_sink(SINK))
