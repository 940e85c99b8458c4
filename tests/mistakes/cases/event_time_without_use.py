# event_time= without ttl or on_timer.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, built, word


@wallaroo.state_computation(name="count", state=Total, event_time=lambda line: 0)
def count(line, total):
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
