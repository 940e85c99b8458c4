# A timer with a float.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, Total, built, word


def end(name, total, timers):
    return "over"


@wallaroo.state_computation(name="count", state=Total, on_timer=end)
def count(line, total, timers):
    timers.set_after(1.5)
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
