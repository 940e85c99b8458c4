# A key extractor that is a coroutine.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, built


@wallaroo.key_extractor
async def first(line):
    return line[:1]


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    return line


def application_setup(args):
    return built(LINES.key_by(first).to(count).to_sink(SINK))
