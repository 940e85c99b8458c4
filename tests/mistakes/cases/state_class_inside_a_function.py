# A state class that is defined in a function.
# $ wallaroo check application.py
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built, word


def made():
    class Inner:
        pass
    return Inner


@wallaroo.state_computation(name="count", state=made())
def count(line, inner):
    return line


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
