# computation_async without its arguments.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation_async
async def fetch(line):
    return line


def application_setup(args):
    return built(LINES.to(fetch).to_sink(SINK))
