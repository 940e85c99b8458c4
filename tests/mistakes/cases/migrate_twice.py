# Two migrations from one version.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, Total, built


@wallaroo.migrate(Total, from_version=1)
def one(fields):
    return fields


@wallaroo.migrate(Total, from_version=1)
def two(fields):
    return fields


def application_setup(args):
    return built(LINES.to_sink(SINK))
