# output that raises.
# $ wallaroo simulate application.py --until 600
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
    def output(self, key, lines):
        return lines["ada"]


def application_setup(args):
    windows = wallaroo.range_windows(wallaroo.minutes(1)).over(Bad)
    return built(LINES.key_by(word).to(windows).to_sink(SINK))
