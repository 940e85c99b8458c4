# A slide longer than the window.
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
    windows = wallaroo.range_windows(wallaroo.minutes(1)).with_slide(wallaroo.minutes(2)).over(Count)
    return built(LINES.key_by(word).to(windows).to_sink(SINK))
