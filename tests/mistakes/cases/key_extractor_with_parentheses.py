# A key extractor with parentheses.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.key_extractor()
def first(line):
    return line[:1]


def application_setup(args):
    return built(LINES.key_by(first).to_sink(SINK))
