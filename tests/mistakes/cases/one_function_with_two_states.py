# One function with the state of two steps, which depends on the order of the code.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, word


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    return line


def application_setup(args):
    long, short = LINES.split(lambda line: len(line) > 9)
    counted = [side.key_by(word).to(count).to_sink(SINK) for side in (long, short)]
    return wallaroo.build_application("Mistake", *counted)
