"""Messages are counted as in `counting.py`, with a topic as source, as sink, or as both."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,import-not-found"

import argparse
from typing import Any

import counting

import wallaroo

TRANSACTION_MS = 10_000
"""Time after which the brokers end an open transaction: less than the gateway stands still."""


def application_setup(args):
    parser = argparse.ArgumentParser()
    for name in ("brokers", "read", "write"):
        parser.add_argument(f"--{name}", default="")
    chosen, others = parser.parse_known_args(args)
    source: Any
    sink: Any
    if chosen.read:
        source = wallaroo.KafkaSourceConfig(
            chosen.read, chosen.brokers, counting.decode, on_lost="skip"
        )
    else:
        in_host, in_port = wallaroo.tcp_parse_input_addrs(others)[0]
        source = wallaroo.TCPSourceConfig(in_host, in_port, counting.decode)
    if chosen.write:
        settings = {"transaction.timeout.ms": TRANSACTION_MS}
        sink = wallaroo.KafkaSinkConfig(
            chosen.write, chosen.brokers, encode_with_key, settings=settings
        )
    else:
        out_host, out_port = wallaroo.tcp_parse_output_addrs(others)[0]
        sink = wallaroo.TCPSinkConfig(out_host, out_port, counting.encode, sequenced=True)
    builder = wallaroo.ApplicationBuilder("Chaos")
    builder.new_pipeline("Chaos", source)
    builder.to_state_partition(counting.count, counting.Seen, "seen", counting.key)
    builder.to_sink(sink)
    return builder.build()


@wallaroo.encoder
def encode_with_key(last):
    return counting.encode(last), last[0]
