# A key extractor where a computation belongs.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.key_extractor
def first(line):
    return line[:1]


def application_setup(args):
    return built(LINES.to(first).to_sink(SINK))
