# A key function that raises.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, Total, built


@wallaroo.key_extractor
def user(line):
    return line["user"]


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    return line


def application_setup(args):
    return built(LINES.key_by(user).to(count).to_sink(SINK))
