# The listings of the third generation's page on state partitioning, put together: the naive state
# that a class holds, and the partitioned one (whose class the page misspells once).
# ruff: noqa
# mypy: ignore-errors
import wallaroo


def application_setup(args):
    (left, right) = wallaroo.tcp_parse_input_addrs(args)[:2]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    a = wallaroo.source("A", wallaroo.TCPSourceConfig(*left, decode))
    b = wallaroo.source("B", wallaroo.TCPSourceConfig(*right, decode))
    stocks = (a.merge(b)
              .key_by(extract_symbol)
              .to(update_stock)
              .to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode)))
    return wallaroo.build_application("stocks", stocks)


class Stock(object):
    def __init__(self, stock, price):
        self.symbol = stock
        self.price = price


class Stocks(object):
    stocks = {}

    def set(self, symbol, price):
        self.stocks[symbol] = price


@wallaroo.state_computation("update stocks", state=Stocks)
def update_stocks(stock, state):
    state.set(stock.symbol, stock.price)
    return None


class StockPrice(object):
    price = 0.0


@wallaroo.state_computation(name="update stock", state=StockPrice)
def update_stock(stock, state):
    before, state.price = state.price, stock.price
    return (stock.symbol, before, state.price)


def extract_symbol(data):
    return data.symbol


@wallaroo.decoder(header_length=2, length_fmt=">H")
def decode(bs):
    symbol, price = bs.decode().split()
    return Stock(symbol, float(price))


@wallaroo.encoder
def encode(change):
    return "%s %s -> %s\n" % change
