# A computation that raises an exception without a text.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="first")
def first(line):
    return next(iter(()))


def application_setup(args):
    return built(LINES.to(first).to_sink(SINK))
