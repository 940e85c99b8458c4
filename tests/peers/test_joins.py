"""Published examples of joins, of Bytewax.

Input and results are those of its documentation: the page on joins, and `examples/join.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import wallaroo
from wallaroo import Pipeline
from wallaroo.testing import simulate

LATER_NS = 10**18
NAMES = [{"user_id": 123, "name": "Bee"}, {"user_id": 456, "name": "Hive"}]
EMAILS = [
    {"user_id": 123, "email": "bee@bytewax.io"},
    {"user_id": 456, "email": "hive@bytewax.io"},
]


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> Any:
    return json.loads(payload)


@wallaroo.encoder
def encode(message: Any) -> str:
    return json.dumps(message)


def stream(name: str) -> Pipeline[Any]:
    source = wallaroo.source(name, wallaroo.TCPSourceConfig("", 0, decode))
    return source.key_by(lambda message: str(message["user_id"]))


def results(joined: Pipeline[Any], sent: Mapping[str, Sequence[Any]]) -> list[Any]:
    """What is emitted once a message of each stream in turn has come, and then none for long."""
    sink = wallaroo.TCPSinkConfig("", 0, encode)
    application = wallaroo.build_application("Peer", joined.to_sink(sink))
    turns = max(map(len, sent.values()))
    messages = [
        (name, json.dumps(ones[turn]).encode())
        for turn in range(turns)
        for name, ones in sent.items()
        if turn < len(ones)
    ]
    result = simulate(application, messages, until_ns=LATER_NS)
    assert not result.set_aside
    assert not result.late
    return [json.loads(output) for output in result.outputs]


def test_bytewaxs_complete_join() -> None:
    """An inner join; a name without an email, as of Pooh Bear, gives nothing."""

    @wallaroo.interval_join(name="join", before=wallaroo.hours(1), after=wallaroo.hours(1))
    def join(name: Any, email: Any) -> Any:
        return [str(name["user_id"]), [name["name"], email["email"]]]

    joined = stream("names").join(stream("emails"), join)
    names = [*NAMES, {"user_id": 789, "name": "Pooh Bear"}]
    assert results(joined, {"names": names, "emails": EMAILS}) == [
        ["123", ["Bee", "bee@bytewax.io"]],
        ["456", ["Hive", "hive@bytewax.io"]],
    ]


def test_bytewaxs_running_join() -> None:
    """It emits for each message of both sides, so each is the table of the other."""

    @wallaroo.table_join(name="names with emails", how="left")
    def of_name(name: Any, email: Any) -> Any:
        return [str(name["user_id"]), [name["name"], email and email["email"]]]

    @wallaroo.table_join(name="emails with names", how="left")
    def of_email(email: Any, name: Any) -> Any:
        return [str(email["user_id"]), [name and name["name"], email["email"]]]

    names, emails = stream("names"), stream("emails")
    joined = names.join(emails, of_name).merge(emails.join(names, of_email))
    again = [*EMAILS, {"user_id": 123, "email": "queen@bytewax.io"}]
    assert results(joined, {"names": NAMES, "emails": again}) == [
        ["123", ["Bee", None]],
        ["123", ["Bee", "bee@bytewax.io"]],
        ["456", ["Hive", None]],
        ["456", ["Hive", "hive@bytewax.io"]],
        ["123", ["Bee", "queen@bytewax.io"]],
    ]


def at(hour: int, minute: int) -> str:
    return datetime(2023, 12, 14, hour, minute, tzinfo=UTC).isoformat()


def time_of(message: Any) -> datetime:
    return datetime.fromisoformat(message["at"])


def near(name: Any, email: Any) -> Any:
    return [str(name["user_id"]), [name["name"], email and email["email"]]]


def test_bytewaxs_windowed_join_of_an_hour() -> None:
    """The windows there are fixed; here an email belongs to a name that is within the hour.

    An email without a name is emitted there, too, and never here.
    """
    join = wallaroo.interval_join(
        name="join",
        how="left",
        before=wallaroo.seconds(0),
        after=wallaroo.hours(1),
        left_time=time_of,
        right_time=time_of,
        delay=wallaroo.seconds(0),
    )(near)
    names = [{**name, "at": at(0, 0)} for name in NAMES]
    emails = [{**EMAILS[0], "at": at(0, 15)}, {**EMAILS[1], "at": at(1, 15)}]
    joined = stream("names").join(stream("emails"), join)
    assert sorted(results(joined, {"names": names, "emails": emails})) == [
        ["123", ["Bee", "bee@bytewax.io"]],
        ["456", ["Hive", None]],
    ]


def test_bytewaxs_product_join() -> None:
    """With `product=True`, as an interval join always does, all pairs are emitted."""
    join = wallaroo.interval_join(
        name="join",
        how="left",
        before=wallaroo.seconds(0),
        after=wallaroo.hours(1),
        left_time=time_of,
        right_time=time_of,
        delay=wallaroo.seconds(0),
    )(near)
    joined = stream("names").join(stream("emails"), join)
    again = {"user_id": 123, "email": "queen@bytewax.io", "at": at(0, 30)}
    names, emails = [{**NAMES[0], "at": at(0, 0)}], [{**EMAILS[0], "at": at(0, 15)}, again]
    assert results(joined, {"names": names, "emails": emails}) == [
        ["123", ["Bee", "bee@bytewax.io"]],
        ["123", ["Bee", "queen@bytewax.io"]],
    ]


def test_bytewaxs_example_of_three_inputs() -> None:
    """Four sides there, as an input is split; here three, one after the other."""

    hour = wallaroo.hours(1)

    def both(left: Any, right: Any) -> Any:
        return {**left, **right}

    second = wallaroo.interval_join(name="second", before=hour, after=hour)(both)
    third = wallaroo.interval_join(name="third", before=hour, after=hour)(both)
    joined = stream("inp1").join(stream("inp2"), second).join(stream("inp3"), third)
    given = {
        "inp1": [{"user_id": 123, "name": "Bumble"}],
        "inp2": [{"user_id": 123, "email": "bee@bytewax.com"}],
        "inp3": [{"user_id": 123, "color": "yellow", "sound": "buzz"}],
    }
    assert [tuple(result.values())[1:] for result in results(joined, given)] == [
        ("Bumble", "bee@bytewax.com", "yellow", "buzz")
    ]
