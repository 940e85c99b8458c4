# combine that raises.
# $ wallaroo simulate application.py --until 600
# < ada
# < ada
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


class Bad(Count):
    def combine(self, one, other):
        return one | other


def application_setup(args):
    windows = wallaroo.range_windows(wallaroo.minutes(1)).with_slide(wallaroo.seconds(20))
    return built(LINES.key_by(word).to(windows.over(Bad)).to_sink(SINK))
