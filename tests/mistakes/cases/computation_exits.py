# sys.exit in a computation.
# $ wallaroo simulate application.py
# < ada
import sys

import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="leave")
def leave(line):
    sys.exit(1)


def application_setup(args):
    return built(LINES.to(leave).to_sink(SINK))
