# An application with a name of 400 letters.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK


def application_setup(args):
    return wallaroo.build_application("x" * 400, LINES.to_sink(SINK))
