# key_by with the name of a field.
# $ wallaroo check application.py
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.key_by("user").to_sink(SINK))
