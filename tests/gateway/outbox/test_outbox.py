"""The outbox: what an epoch publishes goes out once, whatever was staged, asked or restarted."""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import outputs
from tests.helpers import PATIENCE_S
from wallaroo.gateway.database import DamagedDatabase
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.gateway.outbox.staging import StateChange
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


def publish(outbox: Outbox, batch: int, *made: bytes, sink: int = 0) -> None:
    outbox.stage("run", batch, f"token {batch}", [outputs(*made, to=sink)], Tally())
    assert told(outbox, f"token {batch}", batch) == Tally()


def staged(outbox: Outbox) -> int:
    """Pieces of outputs that are on disk, whether published or not."""
    (count,) = outbox._database.execute("SELECT count(*) FROM staged").fetchone()
    return int(count)


def told(outbox: Outbox, token: str, batch: int = 0) -> Tally:
    """What the task of *token* has reported, which is published for that."""
    tally = outbox.publish("run", batch, [token])
    assert tally is not None
    return tally


def test_outputs_keep_the_order_of_their_batches_and_tokens(outbox: Outbox) -> None:
    outbox.stage("run", 0, "second", [outputs(b"c"), outputs(b"d")], Tally())
    outbox.stage("run", 0, "first", [outputs(b"a", b"b")], Tally())
    outbox.publish("run", 0, ["first", "second"])
    publish(outbox, 1, b"e")
    assert [data for _, data in waiting(outbox)] == [b"ab", b"c", b"d", b"e"]


def test_a_delivery_tells_where_each_output_ends(outbox: Outbox) -> None:
    publish(outbox, 0, b"a", b"", b"ccc")
    delivery = outbox.next(0, 0, 0.0)
    assert isinstance(delivery, Delivery)
    assert list(array("I", delivery.outputs.lengths)) == [1, 0, 3]


def test_each_sink_has_its_own_outputs(outbox: Outbox) -> None:
    outbox.stage("run", 0, "t", [outputs(b"zero", to=0), outputs(b"one", to=1)], Tally())
    outbox.publish("run", 0, ["t"])
    assert [data for _, data in waiting(outbox, 1)] == [b"one"]
    outbox.delivered(1, 100)
    assert [data for _, data in waiting(outbox, 0)] == [b"zero"]


def test_a_call_that_is_repeated_stages_nothing_twice(outbox: Outbox) -> None:
    for _ in range(2):
        outbox.stage("run", 0, "t", [outputs(b"a")], Tally(set_aside=1), "call 1")
    outbox.stage("run", 0, "t", [outputs(b"b")], Tally(set_aside=1), "call 2")
    outbox.stage("run", 0, "t", [outputs(b"a")], Tally(set_aside=1), "call 1")
    assert told(outbox, "t").set_aside == 2
    assert [data for _, data in waiting(outbox)] == [b"a", b"b"]


def test_a_publish_that_is_repeated_late_leaves_what_the_next_batch_stages(outbox: Outbox) -> None:
    publish(outbox, 0, b"a")
    outbox.stage("run", 1, "next", [outputs(b"b")], Tally())
    outbox.publish("run", 0, ["token 0"])
    outbox.publish("run", 1, ["next"])
    assert [data for _, data in waiting(outbox)] == [b"a", b"b"]


def test_a_batch_is_published_once_however_often_it_is_asked(outbox: Outbox) -> None:
    publish(outbox, 0, b"a")
    outbox.stage("run", 0, "again", [outputs(b"a")], Tally(set_aside=1))
    assert outbox.publish("run", 0, ["again"]) is None
    assert outbox.publish("run", 0, ["nothing was staged under this"]) is None
    assert [data for _, data in waiting(outbox)] == [b"a"]
    assert outbox.counters()["published"] == 1


def test_batches_of_another_run_are_other_batches(outbox: Outbox) -> None:
    publish(outbox, 0, b"a")
    outbox.stage("another run", 0, "t", [outputs(b"b")], Tally())
    outbox.publish("another run", 0, ["t"])
    assert [data for _, data in waiting(outbox)] == [b"a", b"b"]


def test_that_a_batch_was_published_survives_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as outbox:
        publish(outbox, 3, b"a")
        outbox.delivered(0, 1)
    with opened(tmp_path) as outbox:
        outbox.stage("run", 3, "again", [outputs(b"a")], Tally())
        assert outbox.publish("run", 3, ["again"]) is None
        assert waiting(outbox) == []


def test_what_no_batch_publishes_is_forgotten(tmp_path: Path) -> None:
    with opened(tmp_path) as outbox:
        outbox.stage("run", 0, "an attempt that failed", [outputs(b"lost")], Tally())
        publish(outbox, 0, b"a")
        assert [data for _, data in waiting(outbox)] == [b"a"]
        with pytest.raises(LookupError):
            outbox.publish("run", 1, ["an attempt that failed"])


def test_what_was_staged_before_a_restart_is_forgotten_with_the_next_batch(tmp_path: Path) -> None:
    with opened(tmp_path) as outbox:
        publish(outbox, 0, b"a")
        outbox.stage("run", 1, "before", [outputs(b"lost")], Tally())
    with opened(tmp_path) as outbox:
        publish(outbox, 1, b"b")
        assert [data for _, data in waiting(outbox)] == [b"a", b"b"]
        assert staged(outbox) == 2


def test_an_epoch_forgets_nothing_of_another_run_or_of_a_later_epoch(outbox: Outbox) -> None:
    outbox.stage("run", 1, "later", [outputs(b"b")], Tally())
    outbox.stage("another run", 0, "t", [outputs(b"c")], Tally())
    publish(outbox, 0, b"a")
    outbox.publish("run", 1, ["later"])
    outbox.publish("another run", 0, ["t"])
    assert [data for _, data in waiting(outbox)] == [b"a", b"b", b"c"]


def test_a_token_belongs_to_its_run_and_epoch(outbox: Outbox) -> None:
    for run, epoch in (("one", 0), ("one", 1), ("two", 0)):
        outbox.stage(run, epoch, "t", [outputs(f"{run} {epoch}".encode())], Tally())
    for run, epoch in (("two", 0), ("one", 0), ("one", 1)):
        outbox.publish(run, epoch, ["t"])
    assert [data for _, data in waiting(outbox)] == [b"two 0", b"one 0", b"one 1"]


def test_a_task_that_reports_after_its_epoch_was_published_leaves_nothing(outbox: Outbox) -> None:
    publish(outbox, 1, b"a")
    outbox.stage("run", 1, "late", [outputs(b"lost")], Tally())
    outbox.stage("run", 0, "later still", [outputs(b"lost")], Tally())
    assert staged(outbox) == 1


def test_whoever_takes_over_the_gateway_forgets_what_was_staged(outbox: Outbox) -> None:
    publish(outbox, 0, b"a")
    outbox.stage("run", 1, "t", [outputs(b"lost")], Tally())
    outbox.stage("another run", 7, "t", [outputs(b"lost")], Tally())
    outbox.forget_staged()
    assert staged(outbox) == 1
    with pytest.raises(LookupError):
        outbox.publish("run", 1, ["t"])
    assert [data for _, data in waiting(outbox)] == [b"a"]


def published_changes(outbox: Outbox, run: str = "run", after: int = -1) -> list[bytes]:
    return [change for block in outbox.changes(run, after) for *_, change in block]


def test_changes_of_state_are_published_with_the_outputs_of_their_epoch(outbox: Outbox) -> None:
    for epoch, change in ((1, b"later"), (0, b"first")):
        changes = [StateChange("s", 3, change), StateChange("t", 4, change + b"!")]
        outbox.stage("run", epoch, "t", [outputs(b"a")], Tally(), changes=changes)
    outbox.stage("run", 0, "failed", [], Tally(), changes=[StateChange("s", 3, b"lost")])
    assert published_changes(outbox) == []
    outbox.publish("run", 0, ["t"])
    assert published_changes(outbox) == [b"first", b"first!"]
    outbox.publish("run", 1, ["t"])
    assert published_changes(outbox) == [b"first", b"first!", b"later", b"later!"]
    assert published_changes(outbox, after=0) == [b"later", b"later!"]
    assert published_changes(outbox, "another run") == []
    ((epoch, _, state, bucket, change), _) = next(outbox.changes("run", 0))
    assert (epoch, state, bucket, change) == (1, "s", 3, b"later")


def test_changes_that_a_checkpoint_contains_are_forgotten(outbox: Outbox) -> None:
    for epoch in range(4):
        change = [StateChange("s", 0, b"%d" % epoch)]
        outbox.stage("run", epoch, "t", [], Tally(), changes=change)
        outbox.stage("another run", epoch, "t", [], Tally(), changes=change)
    for epoch in range(3):
        outbox.publish("run", epoch, ["t"])
        outbox.publish("another run", epoch, ["t"])
    outbox.forget_changes("run", 1)
    assert published_changes(outbox) == [b"2"]
    outbox.forget_changes("run", 9)  # forgets nothing that may still be published
    outbox.publish("run", 3, ["t"])
    assert published_changes(outbox) == [b"3"]
    assert published_changes(outbox, "another run") == [b"0", b"1", b"2"]


@pytest.mark.parametrize("damage", ["change = x'00'", "state = 't'", "bucket = 4", "epoch = 0"])
def test_damaged_changes_are_found_when_they_are_read(outbox: Outbox, damage: str) -> None:
    outbox.stage("run", 0, "t", [], Tally(), changes=[StateChange("s", 3, b"first")])
    outbox.stage("run", 1, "t", [], Tally(), changes=[StateChange("s", 3, b"later")])
    outbox.publish("run", 0, ["t"])
    outbox.publish("run", 1, ["t"])
    outbox._database.execute(f"UPDATE change SET {damage} WHERE epoch = 1")
    with pytest.raises(DamagedDatabase, match="the changes of state in partition"):
        published_changes(outbox)


def test_many_changes_come_in_blocks_and_in_order(outbox: Outbox) -> None:
    for epoch in range(3):
        changes = [StateChange("s", number, bytes(1 << 20)) for number in range(3)]
        outbox.stage("run", epoch, "t", [], Tally(), changes=changes)
        outbox.publish("run", epoch, ["t"])
    blocks = list(outbox.changes("run", -1))
    assert len(blocks) > 1
    assert [(epoch, bucket) for block in blocks for epoch, _, _, bucket, _ in block] == [
        (epoch, bucket) for epoch in range(3) for bucket in range(3)
    ]


def test_an_unknown_token_publishes_nothing_of_its_batch(outbox: Outbox) -> None:
    outbox.stage("run", 0, "known", [outputs(b"a")], Tally())
    with pytest.raises(LookupError, match="nothing is staged under unknown for epoch 0"):
        outbox.publish("run", 0, ["known", "unknown"])
    assert waiting(outbox) == []
    outbox.publish("run", 0, ["known"])
    assert [data for _, data in waiting(outbox)] == [b"a"]


def test_a_task_without_outputs_still_reports(outbox: Outbox) -> None:
    example = FailedMessage("p", "s", "f.py:1", "E: x", "b'm'")
    outbox.stage("run", 0, "t", [], Tally(2, [example], unknown_keys={("state", "'k'"): 3}))
    tally = told(outbox, "t")
    assert (tally.set_aside, tally.examples) == (2, [example])
    assert tally.unknown_keys == {("state", "'k'"): 3}
    counters = {"published": 0, "set_aside": 2, "unknown_key": 3, "late": 0}
    assert outbox.counters() == {**counters, "letters": 0, "letters_gone": 0}


def test_a_task_may_stage_several_times(outbox: Outbox) -> None:
    outbox.stage("run", 0, "t", [outputs(b"a")], Tally(set_aside=1))
    outbox.stage("run", 0, "t", [outputs(b"b")], Tally(set_aside=1))
    assert told(outbox, "t").set_aside == 2
    assert [data for _, data in waiting(outbox)] == [b"a", b"b"]


def test_what_is_delivered_is_gone(outbox: Outbox) -> None:
    for batch, made in enumerate((b"a", b"b", b"c")):
        publish(outbox, batch, made)
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
        for batch in range(5):
            publish(outbox, batch, b"%d" % batch, b".")
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
        for batch in range(6):
            publish(outbox, 2 * batch, b"%d" % batch, b"x" * 100)
            publish(outbox, 2 * batch + 1, b"other", sink=1)
        for position, _ in waiting(outbox):
            outbox.delivered(0, position, keep_bytes=700)
        for position, _ in waiting(outbox, 1):
            outbox.delivered(1, position)
        found = [(2 * batch + 1, b"%d" % batch + b"x" * 100) for batch in (3, 4, 5)]
        assert kept(outbox) == found
        assert kept(outbox, 1) == []
        assert outbox.undelivered == 0
        assert staged(outbox) == 3
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
    assert staged(outbox) == 0


def test_a_damaged_output_is_not_given_out_of_what_is_kept(outbox: Outbox) -> None:
    for batch in range(2):
        publish(outbox, batch, b"%d" % batch)
    for position, _ in waiting(outbox):
        outbox.delivered(0, position, keep_bytes=800)
    outbox._database.execute("UPDATE staged SET data = x'78' WHERE data = ?", (b"0",))
    assert kept(outbox) == [(2, b"1")]
