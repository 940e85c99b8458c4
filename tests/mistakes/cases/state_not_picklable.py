# A state with a lock in it.
# $ wallaroo simulate application.py
# < ada
import threading

import wallaroo
from parts import LINES, SINK, built, word


class Locked:
    def __init__(self):
        self.lock = threading.Lock()


@wallaroo.state_computation(name="count", state=Locked)
def count(line, locked):
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
