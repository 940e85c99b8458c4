"""Every feature of the three generations, on Spark as in the simulation."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from tests.spark.in_process import InProcess
from wallaroo.loading.loader import ApplicationRef
from wallaroo.testing import load, simulate

ADDRESSES = ("--in", "127.0.0.1:0,127.0.0.1:0", "--out", "127.0.0.1:1,127.0.0.1:2")
Sent = list[tuple[str, bytes]]


def reference(name: str) -> ApplicationRef:
    return ApplicationRef(f"tests.features.{name}", ADDRESSES)


def shop(choose: random.Random) -> Sent:
    return [
        (choose.choice(["Orders", "Refunds"]), bytes([choose.randrange(14), *choose.randbytes(1)]))
        for _ in range(300)
    ]


def visits(choose: random.Random) -> Sent:
    sent: Sent = []
    for _ in range(300):
        name = choose.choice(["Ann", "Bob", "Eve"])
        if choose.random() < 0.2:
            sent.append(("Names", f"{name.lower()} {name}{choose.randrange(9)}".encode()))
        else:
            page, day = choose.choice("xyz"), choose.randrange(3)
            sent.append(("Visits", f"{name} /{page} {day}".encode()))
    return [*sent, ("Visits", b""), ("Visits", b"Ann /x someday")]


def readings(choose: random.Random) -> Sent:
    sent: Sent = []
    for number in range(400):
        time = number // 10 + choose.randint(-9, 0)
        payload = f"s{choose.randrange(4)} {time} {choose.randrange(40)}".encode()
        sent.append((choose.choice(["Left", "Right"]), payload))
    return sent


def purchases(choose: random.Random) -> Sent:
    return [
        ("Purchases", f"{choose.choice('abc')} {choose.randrange(9)}".encode()) for _ in range(200)
    ]


def clicks(choose: random.Random) -> Sent:
    sent: Sent = []
    for number in range(300):
        minute = number // 3 + choose.randint(-9, 0) + 10
        user = choose.choice(["Ann", "Bob", "Eve"])
        sent.append(("Clicks", f"{user} {minute} {choose.choice('xyz')}".encode()))
        if choose.random() < 0.05:  # a pause
            sent = sent[: -choose.randrange(20)]
    return sent


def orders(choose: random.Random) -> Sent:
    sent: Sent = []
    for _ in range(200):
        items = choose.choices("abc", k=choose.randrange(3))
        order = {"count": choose.randrange(14), "items": items}
        sent.append(("Orders", json.dumps(order).encode()))
    return [*sent, ("Orders", b'{"items": []}')]


STREAMS = {
    "classes": shop,
    "decorators": visits,
    "inline": orders,
    "pipelines": readings,
    "serialization": purchases,
    "windows": clicks,
}


@pytest.mark.spark
@pytest.mark.parametrize("name", STREAMS)
def test_spark_gives_what_the_simulation_gives(name: str, on_spark: InProcess) -> None:
    choose = random.Random(name)
    sent = STREAMS[name](choose)
    due = simulate(reference(name).load(), sent)
    assert len(due.outputs) > 20
    made = on_spark.run(reference(name), sent, max_chunk_bytes=700, choose=choose)
    for sink, outputs in due.by_sink.items():
        assert Counter(made.by_sink[sink]) == Counter(outputs)
    assert made.tally.set_aside == len(due.set_aside)
    assert sum(made.tally.unknown_keys.values()) == len(due.unknown_keys)
    assert sum(made.tally.late.values()) == len(due.late)


def test_a_click_between_two_visits_joins_them_and_one_after_their_end_is_late() -> None:
    times = [1, 7, 4, 30, 6]
    sent = [("Clicks", f"Ann {time} x".encode()) for time in times]
    result = simulate(reference("windows").load(), sent)
    visits = [line for line in result.by_sink["Clicks"] if line.startswith(b"visit")]
    assert visits == [b"visit Ann 00:01 00:12 early 3 xxx\n", b"visit Ann 00:01 00:12 end 3 xxx\n"]
    assert result.by_sink["Clicks 2"] == [b"late Ann 6 x\n"] * 2
    assert [(step, click[1]) for _, step, click in result.late] == [("visit", 6), ("minutes", 6)]


def test_a_visit_greets_by_the_name_that_was_last_given() -> None:
    sent = [
        ("Visits", b"Ann /x 1"),
        ("Names", b"ann Anna"),
        ("Visits", b"Ann /x 1"),
        ("Visits", b"Bob /x 1"),
    ]
    result = simulate(reference("decorators").load(), sent)
    assert result.by_sink["Visits"] == [
        b"ann /x 1\n",
        b"Anna /x 2\n",
        b"Anna /x 2\n",
        b"Anna /x 3\n",
        b"bob /x 3\n",
    ]
    assert len(result.by_sink["Visits 2"]) == 5


def test_orders_are_split_numbered_and_added_to_the_balance_that_refunds_lower() -> None:
    sent = [("Orders", b"\1\6"), ("Refunds", b"\1\2"), ("Orders", b"\1\4"), ("Orders", b"\5\4")]
    result = simulate(reference("classes").load(), sent)
    assert result.outputs == [b"1: 1 3\n", b"1: 2 6\n", b"1: 3 6\n", b"1: 4 8\n"]
    assert result.unknown_keys == [("accounts", 5), ("accounts", 5)]


@pytest.mark.spark
def test_windows_close_because_the_time_comes(on_spark: InProcess) -> None:
    """No message ever tells that the windows are over: the clock has to."""
    sent = [("Readings", f"{'ab'[n % 2]} {n}".encode()) for n in range(100)]

    def counted(by_sink: dict[str, list[bytes]]) -> bool:
        """Whether the windows that have closed hold all messages."""
        return sum(int(output.split()[-1]) for output in by_sink["Readings"]) == len(sent)

    made = on_spark.run(reference("silence"), sent, until=counted).by_sink["Readings"]
    numbers = [int(output.split()[0]) for output in made]
    assert numbers == list(range(1, len(made) + 1))
    assert {output.split()[1] for output in made} == {b"a", b"b"}


def test_the_simulation_lets_the_time_come_too() -> None:
    application = load("tests.features.silence")
    sent = [("Readings", b"a 1", 100_000_000), ("Readings", b"a 3", 300_000_000)]
    assert simulate(application, sent).outputs == []
    assert simulate(application, sent, until_ns=400_000_000).outputs == [b"1 a 2 2\n"]
    later = [*sent, ("Readings", b"b 7", 500_000_000)]
    assert simulate(application, later).outputs == [b"1 a 2 2\n"]
