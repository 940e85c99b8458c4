# An async step that raises.
# $ wallaroo simulate application.py
# < ada
# < 
# < bob
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation_async(name="fetch")
async def fetch(line):
    return 1 / len(line)


def application_setup(args):
    return built(LINES.to(fetch).to_sink(SINK))
