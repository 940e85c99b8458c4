# A state with a function that has no name.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built, word


class Rule:
    def __init__(self):
        self.holds = lambda line: True


@wallaroo.state_computation(name="rule", state=Rule)
def rule(line, entity):
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(rule).to_sink(SINK))
