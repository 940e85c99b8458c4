# A migration that is missing between two.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, built, word


@wallaroo.migrate(Total, from_version=1)
def one(fields):
    return fields


@wallaroo.migrate(Total, from_version=3)
def three(fields):
    return fields


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
