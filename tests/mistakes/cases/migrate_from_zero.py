# A migration from version 0.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, built


@wallaroo.migrate(Total, from_version=0)
def zero(fields):
    return fields


def application_setup(args):
    return built(LINES.to_sink(SINK))
