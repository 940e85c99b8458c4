"""An application that joins two sources in four ways, each with a sink of its own."""

from __future__ import annotations

import json
from typing import NamedTuple

import wallaroo

LEFT, RIGHT = "Lefts", "Rights"
SOON = "soon"
"""How keys begin whose left messages wait for the clock alone."""


class Item(NamedTuple):
    key: str
    id: int
    time: int


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> Item:
    return Item(*json.loads(payload))


@wallaroo.encoder
def encode(text: str) -> bytes:
    return text.encode()


@wallaroo.key_extractor
def key(item: Item) -> str:
    return item.key


@wallaroo.computation(name="only soon")
def only_soon(item: Item) -> Item | None:
    return item if item.key.startswith(SOON) else None


@wallaroo.computation(name="say late")
def say_late(item: Item) -> str:
    return f"{item.key} late {item.id}"


def time_of(item: Item) -> int:
    return item.time


def pair(left: Item, right: Item | None) -> str:
    if right is not None and left.id == right.id:
        raise ValueError(left.id)
    return f"{left.key} {left.id}+{'' if right is None else right.id}"


last = wallaroo.table_join(name="last", how="left", ttl=wallaroo.hours(100))(pair)
as_of = wallaroo.asof_join(
    name="as of",
    how="left",
    tolerance=wallaroo.hours(1),
    left_time=time_of,
    right_time=time_of,
    delay=wallaroo.hours(2),
)(pair)
near = wallaroo.interval_join(
    name="near",
    how="left",
    before=wallaroo.minutes(10),
    after=wallaroo.hours(1),
    left_time=time_of,
    right_time=time_of,
    delay=wallaroo.minutes(5),
)(pair)
soon = wallaroo.interval_join(
    name="soon", how="left", before=wallaroo.seconds(0), after=wallaroo.milliseconds(50)
)(pair)


def application_setup(_args: list[str]) -> wallaroo.DeclaredApplication:
    lefts, rights = (
        wallaroo.source(name, wallaroo.TCPSourceConfig("127.0.0.1", 0, decode)).key_by(key)
        for name in (LEFT, RIGHT)
    )
    joined_near = lefts.join(rights, near)
    joins = [
        lefts.join(rights, last),
        lefts.join(rights, as_of),
        joined_near,
        lefts.to(only_soon).join(rights.to(only_soon), soon),
        joined_near.late().to(say_late),
    ]
    return wallaroo.build_application(
        "Joining",
        *(
            joined.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", port, encode))
            for port, joined in enumerate(joins, 1)
        ),
    )
