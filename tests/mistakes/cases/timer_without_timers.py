# A computation with on_timer that does not take the timers.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, built, word


def end(name, total, timers):
    return "over"


@wallaroo.state_computation(name="count", state=Total, on_timer=end)
def count(line, total):
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
