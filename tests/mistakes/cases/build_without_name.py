# build_application without the name.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK


def application_setup(args):
    return wallaroo.build_application(LINES.to_sink(SINK))
