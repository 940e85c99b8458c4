"""What the chaos tests run: each key counts its messages, and says which one it saw as the n-th.

It does so as oddly as Python allows: the decoder always gives the same object, with a random part;
the key function changes the message, and its keys are equal without being alike; the entity is
counted by what refers back to it, and yields a part of itself that the next message changes.

An entity keeps what it has drawn for its last message, from the clock and at random, and each
output has what was drawn for it and for the one before: outputs of two runs do not fit together.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,type-arg"

import os
import random
import signal
import time
from datetime import UTC, datetime, timedelta, timezone

import wallaroo
from wallaroo.system.failpoints import fault

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
        self.drawn = 0
        self.last = []
        self.book = Book(self)


class Book:
    def __init__(self, owner):
        self.owner = owner

    def enter(self, name, number):
        owner = self.owner
        owner.messages += 1
        former, owner.drawn = owner.drawn, draw()
        owner.last[:] = (name, number, owner.messages, former, owner.drawn)


def draw():
    """A number that another call never gives, nor one that runs the same message again."""
    return time.time_ns() ^ random.getrandbits(64) | 1


_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_ZONES = [timezone(timedelta(hours=hours)) for hours in range(-11, 12)]
_message: dict = {}


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    if payload.startswith(b"-"):
        return None
    if payload.startswith(b"!kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if payload.startswith(b"!alarm"):  # as decorators for timeouts do
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        payload = b"!hang 1"
    name, number = payload.split(maxsplit=2)[:2]
    _message.clear()
    _message.update(name=name.decode(), number=int(number), drawn=random.random())
    return _message


@wallaroo.partition
def key(message):
    message["key"] = message["drawn"]
    return message["name"], _DAY.astimezone(random.choice(_ZONES))


@wallaroo.state_computation(name="count")
def count(message, seen):
    name, number = message["name"], message["number"]
    if message["key"] != message["drawn"]:
        raise ValueError(message)
    while name == "!hang":
        time.sleep(0.1)
    if name.startswith("slow"):
        time.sleep(SLOW_S)
    seen.book.enter(name, number)
    if number % 100 == 0:
        fault("worker-in-user-code")
    return (seen.last, True)


@wallaroo.encoder
def encode(last):
    name, number, messages, former, drawn = last
    return f"{name} {number} {messages} {name} {messages} {former} {drawn}"
