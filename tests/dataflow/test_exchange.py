"""Messages with keys on their way to buckets."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import wallaroo
from tests.applications.counting import Count, count, decode, encode
from tests.dataflow.harness import Driven, chunks
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve


class Unknown:
    """Neither key nor message for a process that does not know it."""

    def __reduce__(self) -> str:
        return "nowhere"


class Leaving:
    """A key that leaves the process rather than to be hashed."""

    def __hash__(self) -> int:  # noqa: PLE0309
        sys.exit("leaving")


@wallaroo.computation(name="odd ones")
def odd_ones(message: str) -> Any:
    return Unknown() if message == "no pickle" else message


@wallaroo.partition
def key_of(message: Any) -> Any:
    odd = {"no hash": [], "no key": Unknown(), "leaving": Leaving()}
    return odd.get(message, message) if isinstance(message, str) else "key"


repeatable = wallaroo.decoder(header_length=4, length_fmt=">I", repeatable=True)(decode.function)


def application_of(*steps: Any, keys: list[str] | None = None) -> Application:
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("in", wallaroo.TCPSourceConfig("", 0, repeatable))
    for step in steps:
        builder.to(step)
    builder.to_state_partition(count, Count, "seen", key_of, keys, "drop" if keys else None)
    return resolve(builder.to_sink(wallaroo.TCPSinkConfig("", 0, encode)).build())


def test_messages_of_keys_that_are_not_listed_are_dropped() -> None:
    driven = Driven(application_of(keys=["a", "b"]))
    sent = [("in", payload) for payload in (b"a", b"c", b"b", b"a", b"d", b"c")]
    for batch in chunks(driven.program.application, sent, [0] * len(sent)):
        driven.batch(batch)
    assert sorted(driven.outputs["in"]) == [b"a: 1", b"a: 2", b"b: 1"]
    assert driven.tally.unknown_keys == {("seen", "'c'"): 2, ("seen", "'d'"): 1}
    arrivals = sorted((letter.key, letter.arrival) for letter in driven.tally.letters)
    assert arrivals == [("'c'", 1), ("'c'", 5), ("'d'", 4)]


@pytest.mark.parametrize(
    ("odd", "step"),
    [
        (b"no hash", "key of count"),
        (b"no key", "key of count"),
        (b"leaving", "key of count"),
        (b"no pickle", "count"),
    ],
)
@pytest.mark.parametrize("steps", [(), (odd_ones,)], ids=["payloads", "messages"])
def test_what_cannot_travel_is_set_aside_and_the_rest_arrives(
    steps: Any, odd: bytes, step: str
) -> None:
    driven = Driven(application_of(*steps))
    sent = [("in", payload) for payload in (b"a", odd, b"a", b"b")]
    for batch in chunks(driven.program.application, sent, [0, 0, 1, 0]):
        driven.batch(batch)
    aside = [step] if steps or odd != b"no pickle" else []  # payloads do not meet `odd_ones`
    assert [example.step for example in driven.tally.examples] == aside
    arrived = [b"a: 1", b"a: 2", b"b: 1"] + [b"no pickle: 1"] * (not aside)
    assert sorted(driven.outputs["in"]) == arrived
