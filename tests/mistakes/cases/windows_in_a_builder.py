# Windows as other steps of the builder, and other steps as windows.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, decode


class Gathered(wallaroo.Aggregation):
    def initial_accumulator(self):
        return []

    def update(self, message, accumulator):
        accumulator.append(message)

    def combine(self, one, other):
        return one + other

    def output(self, key, accumulator):
        return " ".join(accumulator)


@wallaroo.state_computation(name="count")
def count(message, gathered):
    return (message, True)


@wallaroo.partition
def first(message):
    return message[0]


def application_setup(args):
    pairs = wallaroo.count_windows(2).over(Gathered)
    builder = wallaroo.ApplicationBuilder("Mistake")
    builder.new_pipeline("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode))
    builder.to(pairs)
    builder.to_state_partition(pairs, Gathered, "pairs", first)
    builder.to_windows(wallaroo.count_windows(2), "pairs", first)
    builder.to_windows(count, "pairs", first)
    builder.to_windows(pairs, "pairs", first)
    builder.to_windows(pairs, "pairs", first)
    builder.to_windows(pairs, "others", "first")
    builder.to_windows(pairs, 7, first)
    builder.to_sink(SINK)
    return builder.build()
