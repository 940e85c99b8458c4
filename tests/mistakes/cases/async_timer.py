# A timer's function that is a coroutine.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, built, word


async def remind(name, total, timers):
    return name


@wallaroo.state_computation(name="count", state=Total, on_timer=remind)
def count(line, total, timers):
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
