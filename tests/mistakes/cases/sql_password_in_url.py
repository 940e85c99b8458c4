# The password of a database in its address, and an encoder that returns a text instead of a row.
# $ wallaroo check application.py
# $ wallaroo simulate right.py
# < nut
# + right.py: b"import wallaroo\nfrom parts import LINES, built, encode\n\n\ndef application_setup(args):\n    return built(LINES.to_sink(wallaroo.SQLSinkConfig('sqlite:///shop.db', 'totals', encode)))\n"
import wallaroo
from parts import LINES, built, encode


def application_setup(args):
    sink = wallaroo.SQLSinkConfig("postgresql://app:5c3r3t@db/shop", "totals", encode, key="item")
    return built(LINES.to_sink(sink))
