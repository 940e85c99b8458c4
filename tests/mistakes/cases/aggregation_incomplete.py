# An aggregation without combine.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, word


class Half(wallaroo.Aggregation):
    def initial_accumulator(self):
        return []

    def update(self, line, lines):
        lines.append(line)

    def output(self, key, lines):
        return str(len(lines))


def application_setup(args):
    windows = wallaroo.range_windows(wallaroo.minutes(1)).over(Half)
    return built(LINES.key_by(word).to(windows).to_sink(SINK))
