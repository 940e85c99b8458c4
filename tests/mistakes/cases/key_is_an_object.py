# A key of a class without equality.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, Total, built


class User:
    def __init__(self, name):
        self.name = name


@wallaroo.key_extractor
def user(line):
    return User(line)


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    return line


def application_setup(args):
    return built(LINES.key_by(user).to(count).to_sink(SINK))
