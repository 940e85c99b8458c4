"""0.1 to 0.3: two pipelines over one state partition of listed keys, which are all there are."""

# ruff: noqa
# mypy: ignore-errors
import wallaroo

SHELVES = ["A", "B", "C"]


def application_setup(args):
    input_addrs = wallaroo.tcp_parse_input_addrs(args)
    stock_host, stock_port = input_addrs[0]
    order_host, order_port = input_addrs[1]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    ab = wallaroo.ApplicationBuilder("Warehouse")
    ab.new_pipeline(
        "Stock", wallaroo.TCPSourceConfig(stock_host, stock_port, LineDecoder())
    ).to_state_partition(Fill(), ShelfBuilder(), "shelves", ShelfPartition(), SHELVES).done()
    ab.new_pipeline("Orders", wallaroo.TCPSourceConfig(order_host, order_port, LineDecoder())).to(
        SplitOrder
    ).to_state_partition(
        computation=Take(),
        state_builder=ShelfBuilder(),
        state_name="shelves",
        partition_function=ShelfPartition(),
        partition_keys=SHELVES,
    ).to_sink(wallaroo.TCPSinkConfig(out_host, out_port, LineEncoder()))
    return ab.build()


class LineDecoder(object):
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return int.from_bytes(bs, "big")

    def decode(self, bs):
        return bs.decode("utf-8").split()


class SplitOrder(object):
    """One order of several pieces: shelf, pieces."""

    def name(self):
        return "split order"

    def compute_multi(self, data):
        shelf, pieces = data
        if pieces == "0":
            return None
        return [(shelf, 1)] * int(pieces)


class ShelfPartition(object):
    def partition(self, data):
        return data[0]


class Shelf(object):
    def __init__(self):
        self.pieces = 0


class ShelfBuilder(object):
    def build(self):
        return Shelf()


class Fill(object):
    def name(self):
        return "fill"

    def compute(self, data, state):
        state.pieces += int(data[1])
        return (None, True)


class Take(object):
    def name(self):
        return "take"

    def compute_multi(self, data, state):
        shelf, pieces = data
        if state.pieces < pieces:
            return (["%s empty" % shelf, "order %s" % shelf], False)
        state.pieces -= pieces
        return (["%s %d" % (shelf, state.pieces)], True)


class LineEncoder(object):
    def encode(self, data):
        return data + "\n"
