"""What the chaos tests run: each key counts its messages, and says which one it saw as the n-th."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

import os
import signal
import time

import wallaroo
from wallaroo.edge.faults import fault

SLOW_S = 0.001
"""How long a message of a key that begins with `slow` takes."""


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    builder = wallaroo.ApplicationBuilder("Chaos")
    builder.new_pipeline("Chaos", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    builder.to_state_partition(count, Seen, "seen", key)
    builder.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode, sequenced=True))
    return builder.build()


class Seen:
    def __init__(self):
        self.messages = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    if payload.startswith(b"-"):
        return None
    if payload.startswith(b"!kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    name, number = payload.split(maxsplit=2)[:2]
    return name.decode(), int(number)


@wallaroo.partition
def key(message):
    return message[0]


@wallaroo.state_computation(name="count")
def count(message, seen):
    while message[0] == "!hang":
        time.sleep(0.1)
    if message[0].startswith("slow"):
        time.sleep(SLOW_S)
    seen.messages += 1
    if message[1] % 100 == 0:
        fault("worker-in-user-code")
    return (f"{message[0]} {message[1]} {seen.messages}", True)


@wallaroo.encoder
def encode(output):
    return output
