# A generator function in GenSourceConfig.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built


def numbers():
    yield from range(3)


def application_setup(args):
    return built(wallaroo.source("numbers", wallaroo.GenSourceConfig(numbers)).to_sink(SINK))
