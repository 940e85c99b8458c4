# Market Spread as the first generation wrote it ("Stateful Multi-Stream Processing in Python with
# Wallaroo"); what the text leaves out (orders, results, the encoder) is in its style.
# ruff: noqa
# mypy: ignore-errors
import struct
import time

import wallaroo

FIXTYPE_ORDER = 1
FIXTYPE_MARKET_DATA = 2


def application_setup(args):
    input_addrs = wallaroo.tcp_parse_input_addrs(args)
    order_host, order_port = input_addrs[0]
    market_host, market_port = input_addrs[1]

    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    symbol_partitions = [str_to_partition(x.rjust(4)) for x in
                         load_valid_symbols()]

    ab = wallaroo.ApplicationBuilder("market-spread")
    ab.new_pipeline(
            "Market Data",
            wallaroo.TCPSourceConfig(market_host, market_port,
                                     MarketDataDecoder())
        ).to_state_partition_u64(
            UpdateMarketData(), SymbolDataBuilder(), "symbol-data",
            SymbolPartitionFunction(), symbol_partitions
        ).done()
    ab.new_pipeline(
            "Orders",
            wallaroo.TCPSourceConfig(order_host, order_port, OrderDecoder())
        ).to_state_partition_u64(
            CheckOrder(), SymbolDataBuilder(), "symbol-data",
            SymbolPartitionFunction(), symbol_partitions
       ).to_sink(wallaroo.TCPSinkConfig(out_host, out_port,
                                        OrderResultEncoder()))
    return ab.build()


def str_to_partition(stringable):
    ret = 0
    for x in range(0, len(stringable)):
        ret += ord(stringable[x]) << (x * 8)
    return ret


def load_valid_symbols():
    with open('symbols.txt', 'r') as f:
        return f.read().splitlines()


class MarketSpreadError(Exception):
    pass


class SymbolData(object):
    def __init__(self):
        self.last_bid = 0.0
        self.last_offer = 0.0
        self.should_reject_trades = True


class SymbolDataBuilder(object):
    def build(self):
        return SymbolData()


class SymbolPartitionFunction(object):
    def partition(self, data):
        return str_to_partition(data.symbol.decode())


class MarketDataMessage(object):
    def __init__(self, symbol, transact_time, bid, offer):
        self.symbol = symbol
        self.transact_time = transact_time
        self.bid = bid
        self.offer = offer
        self.mid = (bid + offer) / 2.0


class Order(object):
    def __init__(self, side, account, order_id, symbol, qty, price):
        self.side, self.account, self.order_id = side, account, order_id
        self.symbol, self.qty, self.price = symbol, qty, price


class OrderResult(object):
    def __init__(self, order, bid, offer, timestamp):
        self.order, self.bid, self.offer, self.timestamp = order, bid, offer, timestamp


class MarketDataDecoder(object):
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return struct.unpack(">I", bs)[0]

    def decode(self, bs):
        """
        0 -  1b - FixType (U8)
        1 -  4b - symbol (String)
        5 -  21b - transact_time (String)
        26 - 8b - bid_px (F64)
        34 - 8b - offer_px (F64)
        """
        order_type = struct.unpack(">B", bs[0:1])[0]
        if order_type != FIXTYPE_MARKET_DATA:
            raise MarketSpreadError("Wrong Fix message type. Did you connect "
                                    "the senders the wrong way around?")
        symbol = struct.unpack(">4s", bs[1:5])[0]
        transact_time = struct.unpack(">21s", bs[5:26])[0]
        bid = struct.unpack(">d", bs[26:34])[0]
        offer = struct.unpack(">d", bs[34:42])[0]
        return MarketDataMessage(symbol, transact_time, bid, offer)


class OrderDecoder(object):
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return struct.unpack(">I", bs)[0]

    def decode(self, bs):
        order_type = struct.unpack(">B", bs[0:1])[0]
        if order_type != FIXTYPE_ORDER:
            raise MarketSpreadError("Wrong Fix message type. Did you connect "
                                    "the senders the wrong way around?")
        return Order(*struct.unpack(">BI6s4sdd", bs[1:32]))


class UpdateMarketData(object):
    def name(self):
        return "Update Market Data"

    def compute(self, data, state):
        offer_bid_difference = data.offer - data.bid

        should_reject_trades = ((offer_bid_difference >= 0.05) or
                                ((offer_bid_difference / data.mid) >= 0.05))

        state.last_bid = data.bid
        state.last_offer = data.offer
        state.should_reject_trades = should_reject_trades

        return (None, True)


class CheckOrder(object):
    def name(self):
        return "Check Order"

    def compute(self, data, state):
        if state.should_reject_trades:
            ts = int(time.time() * 100000)
            return (OrderResult(data, state.last_bid,
                                state.last_offer, ts),
                    False)
        return (None, False)


class OrderResultEncoder(object):
    def encode(self, data):
        o = data.order
        p = struct.pack(">BI6s4sddddQ", o.side, o.account, o.order_id, o.symbol,
                        o.qty, o.price, data.bid, data.offer, data.timestamp)
        return struct.pack(">I", len(p)) + p
