"""The outbox: what chunks publish goes out once and in order, whatever is restarted."""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import finished, outputs
from tests.helpers import PATIENCE_S
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.wire.records import FailedMessage, Tally

LIMIT = 1_000


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[Outbox]:
    outbox = Outbox(directory / "outbox.db", LIMIT)
    try:
        yield outbox
    finally:
        outbox.close()


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    with opened(tmp_path) as opened_outbox:
        yield opened_outbox


def waiting(outbox: Outbox, sink: int = 0) -> list[tuple[int, bytes]]:
    """Undelivered outputs of *sink*: position and bytes of each delivery."""
    found: list[tuple[int, bytes]] = []
    while (delivery := outbox.next(sink, found[-1][0] if found else 0, 0.0)) is not None:
        found.append((delivery.position, delivery.outputs.data))
    return found


def publish(outbox: Outbox, chunk: int, *made: bytes, sink: int = 0) -> None:
    outbox.publish("run", [finished(chunk, outputs(*made, to=sink))])


def pieces(outbox: Outbox) -> int:
    """Pieces of outputs that are on disk, whether delivered or not."""
    (count,) = outbox._database.execute("SELECT count(*) FROM piece").fetchone()
    return int(count)


def test_outputs_keep_the_order_of_their_chunks(outbox: Outbox) -> None:
    publish(outbox, 1, b"a", b"b")
    outbox.publish("run", [finished(2, outputs(b"c"), outputs(b"d")), finished(3, outputs(b"e"))])
    assert b"".join(data for _, data in waiting(outbox)) == b"abcde"


def test_a_delivery_tells_where_each_output_ends(outbox: Outbox) -> None:
    publish(outbox, 0, b"a", b"", b"ccc")
    delivery = outbox.next(0, 0, 0.0)
    assert isinstance(delivery, Delivery)
    assert list(array("I", delivery.outputs.lengths)) == [1, 0, 3]


def test_each_sink_has_its_own_outputs(outbox: Outbox) -> None:
    outbox.publish("run", [finished(1, outputs(b"zero", to=0), outputs(b"one", to=1))])
    assert [data for _, data in waiting(outbox, 1)] == [b"one"]
    outbox.delivered(1, 100)
    assert [data for _, data in waiting(outbox, 0)] == [b"zero"]


def test_chunks_of_another_run_are_other_chunks(outbox: Outbox) -> None:
    publish(outbox, 1, b"a")
    outbox.publish("another run", [finished(1, outputs(b"b"))])
    assert [data for _, data in waiting(outbox)] == [b"a", b"b"]


def test_a_chunk_without_outputs_still_reports(outbox: Outbox) -> None:
    example = FailedMessage("p", "s", "f.py:1", "E: x", "b'm'")
    unknown = {("state", "'k'"): 3}
    reported = Tally(2, [example], unknown_keys=unknown, failures={example.kind: 2})
    tally = outbox.publish("run", [finished(1, tally=reported)])
    assert (tally.set_aside, tally.examples) == (2, [example])
    assert tally.unknown_keys == unknown
    counters = {"published": 0, "set_aside": 2, "unknown_key": 3, "late": 0}
    assert outbox.counters() == {**counters, "letters": 0, "letters_gone": 0}


def test_what_is_delivered_is_gone(outbox: Outbox) -> None:
    for chunk, made in enumerate((b"a", b"b", b"c")):
        publish(outbox, chunk, made)
    (_, (second, _), _) = waiting(outbox)
    outbox.delivered(0, second)
    assert [data for _, data in waiting(outbox)] == [b"c"]
    assert outbox.undelivered == 1
    assert outbox.counters()["delivered"] == 2


def test_positions_are_never_given_again_after_all_was_delivered(tmp_path: Path) -> None:
    with opened(tmp_path) as outbox:
        publish(outbox, 0, b"a", b"b")
        ((first, _),) = waiting(outbox)
        outbox.delivered(0, first)
        publish(outbox, 1, b"c")
        ((second, _),) = waiting(outbox)
        assert second > first
        outbox.delivered(0, second)
    with opened(tmp_path) as outbox:
        publish(outbox, 2, b"d")
        ((third, data),) = waiting(outbox)
        assert third > second
        assert data == b"d"


def test_undelivered_outputs_survive_a_restart_in_order(tmp_path: Path) -> None:
    with opened(tmp_path) as outbox:
        for chunk in range(5):
            publish(outbox, chunk, b"%d" % chunk, b".")
        before = waiting(outbox)
        outbox.delivered(0, before[1][0])
    with opened(tmp_path) as outbox:
        assert waiting(outbox) == before[2:]
        assert outbox.undelivered == 6
        assert outbox.counters()["published"] == 10
        assert outbox.counters()["delivered"] == 4


def test_an_outbox_is_full_until_its_receivers_have_enough(outbox: Outbox) -> None:
    publish(outbox, 0, bytes(LIMIT // 2))
    assert outbox.wait_for_room(0.0)
    publish(outbox, 1, bytes(LIMIT // 2))
    assert outbox.full
    assert not outbox.wait_for_room(0.0)
    outbox.delivered(0, waiting(outbox)[0][0])
    assert not outbox.full
    assert outbox.wait_for_room(0.0)


def test_a_gateway_that_stops_keeps_no_call_waiting_for_room(outbox: Outbox) -> None:
    publish(outbox, 0, bytes(LIMIT))
    waiting = threading.Thread(target=lambda: outbox.wait_for_room(10 * PATIENCE_S))
    waiting.start()
    outbox.end_waits()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    assert not outbox.wait_for_room(10 * PATIENCE_S)


def test_whoever_waits_for_outputs_gets_them(outbox: Outbox) -> None:
    got: list[Delivery | None] = []
    thread = threading.Thread(target=lambda: got.append(outbox.next(0, 0, PATIENCE_S)))
    thread.start()
    publish(outbox, 0, b"a")
    thread.join(PATIENCE_S)
    assert [delivery.outputs.data for delivery in got if delivery] == [b"a"]


def test_closing_wakes_whoever_waits(tmp_path: Path) -> None:
    got: list[Delivery | None] = []
    with opened(tmp_path) as outbox:
        thread = threading.Thread(target=lambda: got.append(outbox.next(0, 0, PATIENCE_S)))
        thread.start()
    thread.join(PATIENCE_S)
    assert got == [None]


def kept(outbox: Outbox, sink: int = 0) -> list[tuple[int, bytes]]:
    return [(delivery.number, delivery.outputs.data) for delivery in outbox.kept(sink)]


def test_delivered_outputs_are_kept_within_a_bound_of_bytes(tmp_path: Path) -> None:
    with opened(tmp_path) as outbox:
        for chunk in range(6):
            publish(outbox, 2 * chunk, b"%d" % chunk, b"x" * 100)
            publish(outbox, 2 * chunk + 1, b"other", sink=1)
        for position, _ in waiting(outbox):
            outbox.delivered(0, position, keep_bytes=700)
        for position, _ in waiting(outbox, 1):
            outbox.delivered(1, position)
        found = [(2 * chunk + 1, b"%d" % chunk + b"x" * 100) for chunk in (3, 4, 5)]
        assert kept(outbox) == found
        assert kept(outbox, 1) == []
        assert outbox.undelivered == 0
        assert pieces(outbox) == 3
        assert outbox.by_sink() == {0: (12, 0), 1: (6, 0)}
    with opened(tmp_path) as outbox:  # the bound holds across a start
        assert kept(outbox) == found
        publish(outbox, 20, b"more")
        ((position, _),) = waiting(outbox)
        outbox.delivered(0, position, keep_bytes=500)
        assert kept(outbox) == [*found[2:], (13, b"more")]


def test_what_is_larger_than_the_bound_is_not_kept(outbox: Outbox) -> None:
    publish(outbox, 0, b"small")
    publish(outbox, 1, b"x" * 900)
    for position, _ in waiting(outbox):
        outbox.delivered(0, position, keep_bytes=800)
    assert kept(outbox) == []
    assert pieces(outbox) == 0


def test_a_damaged_output_is_not_given_out_of_what_is_kept(outbox: Outbox) -> None:
    for chunk in range(2):
        publish(outbox, chunk, b"%d" % chunk)
    for position, _ in waiting(outbox):
        outbox.delivered(0, position, keep_bytes=800)
    outbox._database.execute("UPDATE piece SET data = x'78' WHERE data = ?", (b"0",))
    assert kept(outbox) == [(2, b"1")]
