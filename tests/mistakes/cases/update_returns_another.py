# update that returns a new accumulator, and leaves the old one as it was.
# $ wallaroo check application.py
# $ wallaroo simulate application.py --until 600
# < ada
import wallaroo
from parts import LINES, SINK, built, word


class Lines(wallaroo.Aggregation):
    def initial_accumulator(self):
        return []

    def update(self, line, lines):
        if not line:
            return lines
        return [*lines, line]

    def combine(self, one, other):
        return one + other

    def output(self, key, lines):
        return f"{key}: {len(lines)}"


def application_setup(args):
    windows = wallaroo.range_windows(wallaroo.minutes(1)).over(Lines)
    return built(LINES.key_by(word).to(windows).to_sink(SINK))
