# Two sources at one port, of which one is at all addresses.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, decode


def application_setup(args):
    orders = wallaroo.source("orders", wallaroo.TCPSourceConfig("127.0.0.1", 7001, decode))
    quotes = wallaroo.source("quotes", wallaroo.HTTPSourceConfig("0.0.0.0", 7001, bytes.decode, path="/"))
    return wallaroo.build_application("Mistake", orders.to_sink(SINK), quotes.to_sink(SINK))
