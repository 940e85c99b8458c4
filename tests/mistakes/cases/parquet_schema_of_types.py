# A schema of Python's types, and a delimiter of two characters.
# $ wallaroo check application.py
import wallaroo
from parts import built, encode


def application_setup(args):
    orders = wallaroo.source("orders", wallaroo.CSVSourceConfig("orders.csv", delimiter="||"))
    return built(orders.to_sink(wallaroo.ParquetSinkConfig("out", encode, schema={"item": str})))
