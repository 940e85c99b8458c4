"""Counts messages by their first letter; what follows the letter says how user code misbehaves.

A worker runs it from a copy in a test's directory, so it stands alone.
"""

from __future__ import annotations

import builtins
import os
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import Any

import wallaroo

CLOSED = Path(__file__).with_name("closed")
"""While this file exists, an entity with a safe cannot be loaded."""


def application_setup(args: list[str]) -> Any:
    """Counts in entities that refer to themselves: `letter count`."""
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    builder = wallaroo.ApplicationBuilder("Misbehaving")
    builder.new_pipeline("Texts", wallaroo.TCPSourceConfig(host, port, decode))
    builder.to_state_partition(add, Shelf, "shelf", key)
    builder.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return builder.build()


class Book:
    """Changes the entity that it is part of."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def add(self) -> None:
        """Count one more message."""
        self.owner.count += 1


class Shelf:
    """The state of a letter."""

    def __init__(self) -> None:
        self.count = 0
        self.book = Book(self)


class Safe:
    """Cannot be loaded while it is closed."""

    def __setstate__(self, state: Any) -> None:
        if CLOSED.exists():
            msg = "the safe is closed"
            raise ValueError(msg)
        vars(self).update(state)


class Node:
    """A link of a chain that is too long to be pickled."""

    def __init__(self, after: Any) -> None:
        self.after = after


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    """A text."""
    if payload == b"abort in the decoder":
        os.abort()
    if payload == b"grow in the decoder":
        grow()
    return payload.decode()


@wallaroo.partition
def key(text: str) -> str:
    """The first letter."""
    return text[0]


@wallaroo.state_computation(name="add")
def add(text: str, shelf: Any) -> tuple[str, bool]:
    """Count a message, and misbehave as it says."""
    deed = text[2:]
    if deed == "exit":
        os._exit(0)
    if deed == "exit with an error":
        os._exit(1)
    if deed == "become another program":
        os.execv(sys.executable, [sys.executable, "-c", ""])
    if deed == "interrupt":
        raise KeyboardInterrupt
    while deed == "hang":
        time.sleep(0.1)
    if deed == "grow":
        grow()
    damage(deed)
    shelf.book.add()
    if deed == "lock":
        shelf.lock = threading.Lock()
    if deed == "deep":
        shelf.first = None
        for _ in range(200_000):
            shelf.first = Node(shelf.first)
    if deed == "safe":
        shelf.safe = Safe()
        shelf.safe.content = 1
    return f"{text[0]} {shelf.count}", True


def grow() -> None:
    """Take memory until there is none left."""
    held = []
    while True:
        held.append(b"x" * (1 << 20))


def damage(deed: str) -> None:
    """Leave the process in a state in which it cannot go on."""
    if deed == "close":
        os.closerange(3, 1000)
    if deed == "replace pickle":
        pickle.dumps = pickle.Pickler = None  # type: ignore[assignment,misc]
        for name in ("struct", "pickle", "marshal"):
            sys.modules[name] = None  # type: ignore[assignment]
    if deed == "replace built-ins":
        del builtins.len, builtins.dict, builtins.isinstance
    if deed == "forget modules":
        sys.modules.clear()
    if deed == "fork" and (child := os.fork()):
        os.waitpid(child, 0)
    if deed == "fork twice":
        if child := os.fork():
            os.waitpid(child, 0)
        elif os.fork():
            os._exit(0)


@wallaroo.encoder
def encode(text: str) -> str:
    """The text as a line."""
    return f"{text}\n"
