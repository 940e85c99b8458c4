# A computation that takes timers without on_timer=.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, built, word


@wallaroo.state_computation(name="count", state=Total)
def count(line, total, timers):
    timers.set_after(wallaroo.minutes(1))
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
