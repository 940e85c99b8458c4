"""Windows behind a state: each has a second of a key's messages, which were counted before.

An output has all messages of a window, as `counting.py` writes them.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,import-not-found"

from typing import Any

import counting

import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    messages = wallaroo.source(
        "Windows", wallaroo.TCPSourceConfig(in_host, in_port, counting.decode)
    )
    windows = wallaroo.range_windows(wallaroo.seconds(1)).over(Gathered)
    gathered = messages.key_by(counting.key).to(count).key_by(name_of).to(windows)
    return wallaroo.build_application(
        "Windows",
        gathered.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode, sequenced=True)),
    )


@wallaroo.state_computation(name="count", state=counting.Seen)
def count(message, seen):
    last, _ = counting.count(message, seen)
    return last


@wallaroo.partition
def name_of(last):
    return last[0]


class Gathered(wallaroo.Aggregation[Any, Any, Any]):
    def initial_accumulator(self):
        return []

    def update(self, last, gathered):
        gathered.append(counting.encode(last))

    def combine(self, one, other):
        return one + other

    def output(self, _key, gathered):
        return gathered


@wallaroo.encoder
def encode(gathered):
    return ",".join(gathered)
