# A state computation that is a coroutine.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, built, word


@wallaroo.state_computation(name="count", state=Total)
async def count(line, total):
    total.count += 1
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
