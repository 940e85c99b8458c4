# A computation that is a coroutine.
# $ wallaroo check application.py
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="fetch")
async def fetch(line):
    return line


def application_setup(args):
    return built(LINES.to(fetch).to_sink(SINK))
