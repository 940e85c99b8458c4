# A host that is not text.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, built


@wallaroo.encoder
def encode(output):
    return output


def application_setup(args):
    return built(LINES.to_sink(wallaroo.TCPSinkConfig(5, 7002, encode)))
