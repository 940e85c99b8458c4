# A row of a CSV file with a column too many, and a decoder that asks for a column that is not there.
# $ wallaroo simulate application.py
# $ wallaroo simulate other.py
# + orders.csv: b"item,count\nnut,2\nbolt,1,5\nnut,3\n"
# + other.py: b"import wallaroo\nfrom parts import SINK, built\n\n\ndef count(row):\n    return row['cuont']\n\n\ndef application_setup(args):\n    return built(wallaroo.source('orders', wallaroo.CSVSourceConfig('orders.csv', count)).to_sink(SINK))\n"
import wallaroo
from parts import SINK, built


def item(row):
    return row["item"]


def application_setup(args):
    orders = wallaroo.source("orders", wallaroo.CSVSourceConfig("orders.csv", item))
    return built(orders.to_sink(SINK))
