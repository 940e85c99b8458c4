# An event time of seconds.
# $ wallaroo simulate application.py --until 600
# < ada
import time

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


def time_of(line):
    return 1772366400.5


def application_setup(args):
    windows = wallaroo.range_windows(wallaroo.minutes(1)).with_event_time(time_of).over(Count)
    return built(LINES.key_by(word).to(windows).to_sink(SINK))
