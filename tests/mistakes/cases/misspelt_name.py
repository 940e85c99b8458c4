# A name that the package does not have.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.compuation(name="shout")
def shout(line):
    return line.upper()


def application_setup(args):
    return built(LINES.to(shout).to_sink(SINK))
