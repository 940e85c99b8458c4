# sys.exit in a state computation.
# $ wallaroo simulate application.py
# < ada
import sys

import wallaroo
from parts import LINES, SINK, Total, built, word


@wallaroo.state_computation(name="leave", state=Total)
def leave(line, total):
    sys.exit(1)


def application_setup(args):
    return built(LINES.key_by(word).to(leave).to_sink(SINK))
