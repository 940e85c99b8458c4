# The origins of a sink of server-sent events as a text, and one with a path.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, built, encode


def application_setup(args):
    page = wallaroo.SSESinkConfig("127.0.0.1", 7020, encode, origins=["https://shop.example.org/prices"])
    other = wallaroo.SSESinkConfig("127.0.0.1", 7021, encode, path="prices", origins="https://shop.example.org")
    return built(LINES.to_sinks([page, other]))
