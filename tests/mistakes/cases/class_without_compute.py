# A class of the first API whose method has another name.
# $ wallaroo check application.py
from parts import LINES, SINK, built


class IgnoreBlanks:
    def name(self):
        return "ignore blanks"

    def comptue(self, line):
        return line or None


def application_setup(args):
    return built(LINES.to(IgnoreBlanks).to_sink(SINK))
