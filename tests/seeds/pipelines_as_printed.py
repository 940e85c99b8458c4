# The listings of the third generation's page on state partitioning, word for word, but for one
# misspelt class name (`StatePrice`) and the attribute `symbol`, which the page's message calls
# `stock` where it is set. The argument `naive` takes the first of its two ways.
# ruff: noqa
# mypy: ignore-errors
import wallaroo


def application_setup(args):
    address = wallaroo.tcp_parse_input_addrs(args)[0]
    sink = wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)
    stocks = wallaroo.source("Stocks", wallaroo.TCPSourceConfig(*address, decode))
    if "naive" in args:
        return wallaroo.build_application("naive", stocks.to(update_stocks).to_sink(sink))
    partitioned = stocks.key_by(extract_symbol).to(update_stock)
    return wallaroo.build_application("partitioned", partitioned.to_sink(sink))


# Message type
class Stock(object):
    def __init__(self, stock, price):
        self.symbol = stock
        self.price = price

# State type
class Stocks(object):
    stocks = {}

    def set(self, symbol, price):
        self.stocks[symbol] = price


@wallaroo.state_computation("update stock", state=Stocks)
def update_stocks(stock, state):
    state.set(stock.symbol, stock.price)
    return None


class StockPrice(object):
    price = 0.0


@wallaroo.state_computation(name="update stock", state=StockPrice)
def update_stock(stock, state):
    state.price = stock.price
    return None


def extract_symbol(data):
    return data.symbol


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    symbol, price = bs.decode().split()
    return Stock(symbol, float(price))


@wallaroo.encoder
def encode(change):
    return str(change)
