# A function of a timer without parameters.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, built, word


def end():
    return "over"


@wallaroo.state_computation(name="count", state=Total, on_timer=end)
def count(line, total, timers):
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
