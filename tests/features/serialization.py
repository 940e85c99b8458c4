"""An application with a `serialize` and a `deserialize` of its own, whose objects do not pickle."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import json

import wallaroo


def serialize(thing):
    return json.dumps([type(thing).__name__, vars(thing)]).encode()


def deserialize(bs):
    name, values = json.loads(bs)
    thing = object.__new__(globals()[name])
    vars(thing).update(values)
    return thing


class Unpicklable:
    def __reduce__(self):
        raise NotImplementedError


class Purchase(Unpicklable):
    def __init__(self, customer, amount):
        self.customer = customer
        self.amount = amount


class Total(Unpicklable):
    def __init__(self):
        self.sum = 0


def application_setup(args):
    source = wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(args)[0], decode)
    sink = wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)
    purchases = wallaroo.source("Purchases", source).to(doubled).key_by(customer).to(add)
    windows = wallaroo.count_windows(3).over(Largest)
    return wallaroo.build_application(
        "purchases", purchases.key_by(parity).to(windows).to_sink(sink)
    )


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    name, amount = bs.decode().split()
    return Purchase(name, int(amount))


@wallaroo.computation(name="doubled")
def doubled(purchase):
    return Purchase(purchase.customer, 2 * purchase.amount)


def customer(purchase):
    return purchase.customer


@wallaroo.state_computation(name="add", state=Total)
def add(purchase, total):
    total.sum += purchase.amount
    return Purchase(purchase.customer, total.sum)


def parity(purchase):
    return purchase.amount % 3


class Largest(wallaroo.Aggregation[Purchase, Total, Purchase]):
    def initial_accumulator(self):
        return Total()

    def update(self, purchase, total):
        total.sum = max(total.sum, purchase.amount)

    def combine(self, one, other):
        both = Total()
        both.sum = max(one.sum, other.sum)
        return both

    def output(self, key, total):
        return Purchase(str(key), total.sum)


@wallaroo.encoder
def encode(purchase):
    return f"{purchase.customer} {purchase.amount}\n"
