# retry= with a number.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="fetch", retry=3)
def fetch(line):
    return line


def application_setup(args):
    return built(LINES.to(fetch).to_sink(SINK))
