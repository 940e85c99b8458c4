"""What the first generation had: classes for everything, and three ways to put state into steps."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,arg-type"

from __future__ import annotations

import struct

import wallaroo


def application_setup(args):
    orders, refunds = wallaroo.tcp_parse_input_addrs(args)[:2]
    out = wallaroo.tcp_parse_output_addrs(args)[0]
    builder = wallaroo.ApplicationBuilder("shop")
    builder.new_pipeline("Orders", wallaroo.TCPSourceConfig(*orders, Decoder()))
    builder.to_parallel(Positive)
    builder.to(SplitInTwo)
    builder.to_stateful(Number(), CounterBuilder(), "numbers")
    builder.to_state_partition(Add(), AccountBuilder(), "accounts", ByCustomer(), list(range(5)))
    builder.to_parallel(Told)
    builder.to_sink(wallaroo.TCPSinkConfig(*out, Encoder()))
    builder.new_pipeline("Refunds", wallaroo.TCPSourceConfig(*refunds, Decoder()))
    builder.to_state_partition_u64(
        Take(), AccountBuilder(), "accounts", ByCustomer(), list(range(5))
    )
    builder.done()
    return builder.build()


class Decoder:
    """A header of one byte, which counts pairs of bytes: no plain integer."""

    def header_length(self):
        return 1

    def payload_length(self, bs):
        return 2 * struct.unpack(">B", bs)[0]

    def decode(self, bs):
        return (bs[0] % 7, int.from_bytes(bs[1:], "big"))


class Positive:
    def name(self):
        return "positive"

    def compute(self, data):
        return data if data[1] > 0 else None


class SplitInTwo:
    def name(self):
        return "split in two"

    def compute_multi(self, data):
        customer, amount = data
        return None if amount == 1 else [(customer, amount // 2), (customer, amount - amount // 2)]


class CounterBuilder:
    def build(self):
        return [0]


class Number:
    def name(self):
        return "number"

    def compute(self, data, state):
        state[0] += 1
        return ((*data, state[0]), True)


class Account:
    def __init__(self):
        self.balance = 0


class AccountBuilder:
    def build(self):
        return Account()


class ByCustomer:
    def partition(self, data):
        return data[0]


class Add:
    def name(self):
        return "add"

    def compute_multi(self, data, state):
        customer, amount, number = data
        state.balance += amount
        return ([(customer, number, state.balance)], True)


class Take:
    def name(self):
        return "take"

    def compute(self, data, state):
        state.balance -= data[1]
        return (None, True)


class Told:
    def name(self):
        return "told"

    def compute(self, data):
        customer, number, balance = data
        return f"{customer}: {number} {balance}\n"


class Encoder:
    def encode(self, data):
        return data
