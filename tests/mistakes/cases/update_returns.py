# update that returns the new accumulator, as in other systems.
# $ wallaroo check application.py
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
    def initial_accumulator(self):
        return 0

    def update(self, line, count):
        return count + 1

    def combine(self, one, other):
        return one + other

    def output(self, key, count):
        return str(count)


def application_setup(args):
    windows = wallaroo.range_windows(wallaroo.minutes(1)).over(Bad)
    return built(LINES.key_by(word).to(windows).to_sink(SINK))
