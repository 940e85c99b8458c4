# A sink without write.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, built, encode


class Table:
    def save(self, outputs):
        pass


def application_setup(args):
    return built(LINES.to_sink(wallaroo.SinkConfig(Table(), encode)))
