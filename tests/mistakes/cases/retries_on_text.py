# Retries on the name of an exception.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="fetch", retry=wallaroo.retries(3, on="OSError"))
def fetch(line):
    return line


def application_setup(args):
    return built(LINES.to(fetch).to_sink(SINK))
