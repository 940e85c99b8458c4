# build_application with a list of pipelines.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK


def application_setup(args):
    return wallaroo.build_application("Mistake", [LINES.to_sink(SINK)])
