# An aggregation with a method that is a coroutine.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, word


class Longest(wallaroo.Aggregation):
    def initial_accumulator(self):
        return [""]

    def update(self, line, longest):
        longest[0] = max(longest[0], line, key=len)

    def combine(self, one, other):
        return max(one, other)

    async def output(self, key, longest):
        return longest[0]


def application_setup(args):
    return built(LINES.key_by(word).to(wallaroo.count_windows(3).over(Longest)).to_sink(SINK))
