# A decorator of one's own above that of a computation.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


def twice(function):
    def call(line):
        return function(function(line))

    return call


@twice
@wallaroo.computation(name="shout")
def shout(line):
    return line.upper()


def application_setup(args):
    return built(LINES.to(shout).to_sink(SINK))
