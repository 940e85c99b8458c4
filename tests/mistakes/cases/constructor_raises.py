# A state class whose constructor raises.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built, word


class Account:
    def __init__(self):
        self.limit = {}["limit"]


@wallaroo.state_computation(name="count", state=Account)
def count(line, account):
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
