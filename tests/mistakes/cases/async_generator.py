# An async step that yields.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation_async(name="fetch")
async def fetch(line):
    yield line


def application_setup(args):
    return built(LINES.to(fetch).to_sink(SINK))
