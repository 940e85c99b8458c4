# An async step whose time limit is a number of seconds.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation_async(name="fetch", timeout=2.5)
async def fetch(line):
    return line


def application_setup(args):
    return built(LINES.to(fetch).to_sink(SINK))
