# A state class whose constructor needs arguments.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, word


class Account:
    def __init__(self, owner):
        self.owner = owner


@wallaroo.state_computation(name="count", state=Account)
def count(line, account):
    return account.owner


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
