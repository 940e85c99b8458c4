"""The outbox: what chunks publish goes out once and in order, whatever is restarted."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.gateway.harness import NOWHERE, finished, outputs
from tests.gateway.harness import opened as opened_store
from tests.gateway.harness import publish as publish_chunks
from tests.gateway.harness import source as tcp_source
from tests.gateway.log_files import flip, places, segments
from tests.helpers import PATIENCE_S, wait_until
from wallaroo.connectors.tcp.resolve import TCPSink
from wallaroo.gateway import store as store_module
from wallaroo.gateway import writer
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.dead_letters.letter_outputs import LetterOutputs
from wallaroo.gateway.dead_letters.policy import Policy
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.entries import CARRIED, OUTPUTS
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import DamagedLog
from wallaroo.gateway.outbox.outbox import Outbox, RefusedOutput
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.gateway.store import Store
from wallaroo.model.application import Application, Branch, DeadLetters, Pipeline
from wallaroo.model.lost_messages import LostMessage
from wallaroo.wire.records import FailedMessage, Tally

LIMIT = 1_000


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[Outbox]:
    with opened_store(directory, outbox_bytes=LIMIT) as store:
        yield store.outbox


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
    publish_chunks(outbox, finished(chunk + 1, outputs(*made, to=sink)))


def test_outputs_keep_the_order_of_their_chunks(outbox: Outbox) -> None:
    publish(outbox, 1, b"a", b"b")
    publish_chunks(outbox, finished(2, outputs(b"c"), outputs(b"d")), finished(3, outputs(b"e")))
    assert b"".join(data for _, data in waiting(outbox)) == b"abcde"


def test_a_delivery_tells_where_each_output_ends(outbox: Outbox) -> None:
    publish(outbox, 0, b"a", b"", b"ccc")
    delivery = outbox.next(0, 0, 0.0)
    assert isinstance(delivery, Delivery)
    assert list(delivery.outputs.sizes) == [1, 0, 3]


def test_each_sink_has_its_own_outputs(outbox: Outbox) -> None:
    publish_chunks(outbox, finished(1, outputs(b"zero", to=0), outputs(b"one", to=1)))
    assert [data for _, data in waiting(outbox, 1)] == [b"one"]
    outbox.delivered(1, 100)
    assert [data for _, data in waiting(outbox, 0)] == [b"zero"]


def test_chunks_of_another_run_are_other_chunks(outbox: Outbox) -> None:
    publish(outbox, 1, b"a")
    publish_chunks(outbox, finished(1, outputs(b"b")), query="another run")
    assert [data for _, data in waiting(outbox)] == [b"a", b"b"]


def test_a_chunk_without_outputs_still_reports(outbox: Outbox) -> None:
    example = FailedMessage("p", "s", "f.py:1", "E: x", "b'm'")
    unknown = {("state", "'k'"): 3}
    reported = Tally(2, [example], unknown_keys=unknown, failures={example.kind: 2})
    tally = publish_chunks(outbox, finished(1, tally=reported))
    assert (tally.set_aside, tally.examples) == (2, [example])
    assert tally.unknown_keys == unknown
    counters = {"published": 0, "delivered": 0, "set_aside": 2, "unknown_key": 3, "late": 0}
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
    assert not outbox.full
    publish(outbox, 1, bytes(LIMIT // 2))
    assert outbox.full
    outbox.delivered(0, waiting(outbox)[0][0])
    assert not outbox.full


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
        assert [outbox.of_sink(sink) for sink in (0, 1)] == [(12, 0), (6, 0)]
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


def test_a_damaged_output_is_not_given_out_of_what_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as outbox:
        for chunk in range(2):
            publish(outbox, chunk, b"%d" % chunk)
        for position, _ in waiting(outbox):
            outbox.delivered(0, position, keep_bytes=800)
        place, _ = places(tmp_path, OUTPUTS)
        flip(place.file, place.end - 1)
        with pytest.raises(DamagedLog, match=f"record {place.record.number} is not as written"):
            outbox.kept(0)
    with opened_store(tmp_path, skip_damaged=True) as store:
        assert kept(store.outbox) == [(2, b"1")]


def crashed(directory: Path, copy: Path) -> list[Path]:
    """A copy of *directory* for the end of each record of its log, as kills could have left it."""
    made = []
    for number, place in enumerate(places(directory)):
        made.append(copy / str(number))
        shutil.copytree(directory, made[-1])
        (made[-1] / "log-mark").unlink()
        for file in segments(made[-1]):
            if file.name > place.file.name:
                file.unlink()
            elif file.name == place.file.name:
                os.truncate(file, place.end)
    return made


def test_numbers_have_no_gap_and_no_output_is_twice_wherever_a_kill_was(tmp_path: Path) -> None:
    """Also where a snapshot is in the middle of a publication, or a part of one is left."""
    directory = tmp_path / "state"
    directory.mkdir()
    chunks = [
        finished(number, *(outputs(b"%d" % number, b"x" * 3_000, to=sink) for sink in (0, 1)))
        for number in range(1, 9)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "Log", partial(Log, segment_bytes=4_000))
        with pytest.MonkeyPatch.context() as keeping, opened_store(directory) as store:
            keeping.setattr(store_module, "_RELEASE_EVERY_S", 3600.0)  # a kill has left all of it
            store._release_at = time.monotonic() + 3600.0
            for chunk in chunks[:5]:
                publish_chunks(store, chunk)
            assert len(segments(directory)) > 5
        for copy in crashed(directory, tmp_path / "copies"):
            for _ in range(2):
                with opened_store(copy) as store:
                    progress = store.outbox.progress().get("run")
                    last = 0 if progress is None else progress.chunk
                    publish_chunks(store, chunks[last])
            with opened_store(copy) as store:
                assert store.outbox.undelivered == 4 * (last + 1)
                for sink in (0, 1):
                    found = waiting(store.outbox, sink)
                    expected = [
                        (2 * number, b"%d" % number + b"x" * 3_000) for number in range(1, last + 2)
                    ]
                    assert found == expected
                    assert store.outbox.published_to(sink) == 2 * (last + 1)


def test_outputs_of_a_slow_receiver_do_not_keep_the_log(tmp_path: Path) -> None:
    """They move out of segments of which nothing else is needed, and are there once, in order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "Log", partial(Log, segment_bytes=20_000))
        patch.setattr(store_module, "_RELEASE_EVERY_S", 0.0)
        with opened_store(tmp_path) as store:
            for sink in (1, 2):
                publish(store.outbox, sink, b"kept", b"waits", sink=sink)
            store.outbox.delivered(2, 2, keep_bytes=1_000)
            for chunk in range(3, 60):
                publish(store.outbox, chunk, b"%03d" % chunk * 1_000)
                ((position, _),) = waiting(store.outbox)
                store.outbox.delivered(0, position)
            wait_until(lambda: len(segments(tmp_path)) < 5, "the release of segments")
            assert waiting(store.outbox, 1) == [(2, b"keptwaits")]
        assert any(place.record.kind == CARRIED for place in places(tmp_path))
    for _ in range(2):
        with opened_store(tmp_path) as store:
            assert waiting(store.outbox, 1) == [(2, b"keptwaits")]
            assert kept(store.outbox, 2) == [(1, b"keptwaits")]
            assert waiting(store.outbox) == []
            assert store.outbox.undelivered == 2


def test_outputs_that_move_are_where_they_were_until_they_are_on_disk(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "Log", partial(Log, segment_bytes=20_000))
        with opened_store(tmp_path) as store:
            publish(store.outbox, 1, b"waits", sink=1)
            for chunk in range(2, 20):
                publish(store.outbox, chunk, b"%03d" % chunk * 1_000)
        with opened_store(tmp_path) as store:  # outputs are not in memory
            oldest, *_ = segments(tmp_path)
            with store.writer.changed:
                oldest_end = store.writer.log.oldest_end
                assert oldest_end is not None
                moved = store.outbox.queues.carry(oldest_end, store.writer.append)
                assert waiting(store.outbox, 1) == [(1, b"waits")]
                assert store.outbox.queues.needed_from is not None
                assert store.outbox.queues.needed_from < oldest_end
                store.writer.flush()
                moved()
                assert store.outbox.queues.needed_from >= oldest_end
                store.writer.log.release(oldest_end)
            assert not oldest.exists()
            assert waiting(store.outbox, 1) == [(1, b"waits")]


def test_outputs_of_a_publication_that_is_not_on_disk_yet_keep_their_segment(
    tmp_path: Path,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "Log", partial(Log, segment_bytes=5_000))
        with opened_store(tmp_path) as store:
            publish(store.outbox, 0, b"first" * 1_000)
            store.outbox.delivered(0, 1)
            with store.writer.changed:
                begin = store.writer.log.end
                made = [outputs(b"x" * 5_000, to=sink) for sink in range(3)]
                store.outbox.publish("run", [finished(2, *made)])
                assert store.outbox.queues.needed_from is None
                assert store.outbox.needed_from == begin
                store.writer.flush()
                assert store.outbox.needed_from is None
                needed = store.outbox.queues.needed_from
                assert needed is not None
                assert begin <= needed <= begin + 2_000  # there may be a snapshot before them


def test_who_reads_outputs_from_a_slow_disk_keeps_nobody_waiting(tmp_path: Path) -> None:
    with opened(tmp_path) as outbox:
        publish(outbox, 1, b"waits")
    may_read, reads, read = threading.Event(), threading.Event(), os.pread
    found: list[Delivery | None] = []

    def slow_read(file: int, length: int, offset: int) -> bytes:
        reads.set()
        assert may_read.wait(PATIENCE_S)
        return read(file, length, offset)

    with opened_store(tmp_path) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.writer.log._disk, "pread", slow_read)
        sink = threading.Thread(target=lambda: found.append(store.outbox.next(0, 0, 0.0)))
        sink.start()
        assert reads.wait(PATIENCE_S)
        is_free = store.writer.lock.acquire(timeout=1.0)
        may_read.set()
        sink.join(PATIENCE_S)
        assert is_free
        store.writer.lock.release()
        assert [one and one.outputs.data for one in found] == [b"waits"]


def with_letter_topic(*, keeps: bool) -> Application:
    """An application with a sink that may refuse outputs, and one of dead letters."""

    def encode(lost: LostMessage) -> bytes:
        return b"lost %s" % (lost.payload or lost.failed.message.encode())

    to, letters = TCPSink("to", bytes, NOWHERE, "", 1), TCPSink("lost", encode, NOWHERE, "", 2)
    pipeline = Pipeline("in", tcp_source("in"), Branch(()), (to,), NOWHERE)
    return Application("app", (pipeline,), {}, dead_letters=DeadLetters(letters, keeps))


@pytest.mark.parametrize("keeps", [True, False])
def test_dead_letters_are_published_once_wherever_a_kill_was(tmp_path: Path, keeps: bool) -> None:
    """Those of messages with the outputs of their chunks, those of outputs with their delivery."""
    directory = tmp_path / "state"
    directory.mkdir()
    application = with_letter_topic(keeps=keeps)

    def work(store: Store, number: int) -> None:
        """The chunk *number*, in which a message fails, and an output that is refused."""
        made, tally = outputs(b"%d" % number), Tally()
        tally.add_set_aside(FailedMessage("in", "step", "f.py:1", "E: no", f"m{number}"))
        evidence = EvidenceFinder(application, store.journal, {})
        chunk = finished(number, made, tally=tally)._replace(end=0)
        publish_chunks(store, chunk, evidence=evidence)
        refuse(store, number)

    def refuse(store: Store, number: int) -> None:
        letter = FailedMessage("", "sink to", f"output {number}", "it is refused", "")
        refused = RefusedOutput(letter, b"o%d" % number)
        store.outbox.delivered(0, number, refused=[refused])
        store.writer.flush()

    @contextlib.contextmanager
    def reopened(directory: Path) -> Iterator[Store]:
        with opened_store(directory, sources=("in",), sinks=("to", "lost")) as store:
            store.outbox.letter_outputs = LetterOutputs(application)
            yield store

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "_RELEASE_EVERY_S", 3600.0)
        with reopened(directory) as store:
            store._release_at = time.monotonic() + 3600.0
            for number in range(1, 4):
                work(store, number)
    for copy in crashed(directory, tmp_path / "copies"):
        for file in copy.glob("letters.db*"):
            file.unlink()
        with reopened(copy) as store:
            progress = store.outbox.progress().get("run")
            last = 0 if progress is None else progress.chunk
            if store.outbox.delivered_to(0) < last:
                refuse(store, last)  # as a sink does with what is not delivered
            work(store, last + 1)
        with reopened(copy) as store:
            numbers = range(1, last + 2)
            published = b"".join(output for _, output in waiting(store.outbox, sink=1))
            assert published == b"".join(b"lost m%dlost o%d" % (n, n) for n in numbers)
            assert store.outbox.published_to(1) == 2 * len(numbers)
            with store.outbox.letters.transaction() as letters:
                kept = [letter.message or letter.payload for letter in letters.listed(Choice(), 99)]
            assert kept == [one for n in numbers for one in (f"m{n}", b"o%d" % n) if keeps]


def test_nothing_is_published_of_what_is_dropped(tmp_path: Path) -> None:
    application, tally = with_letter_topic(keeps=True), Tally()
    tally.add_set_aside(FailedMessage("in", "step", "f.py:1", "E: no", "m"))
    letter = FailedMessage("", "sink to", "output 1", "it is refused", "")
    with opened_store(tmp_path, sources=("in",), sinks=("to", "lost")) as store:
        store.outbox.letter_outputs = LetterOutputs(application)
        store.outbox.refusals = Policy.DROP
        evidence = EvidenceFinder(application, store.journal, {"in": Policy.DROP})
        chunk = finished(1, outputs(b"1"), tally=tally)._replace(end=0)
        publish_chunks(store, chunk, evidence=evidence)
        store.outbox.delivered(0, 1, refused=[RefusedOutput(letter, b"1")])
        store.writer.flush()
        assert (store.outbox.undelivered, store.outbox.published_to(1)) == (0, 0)


def test_the_dead_letter_of_an_output_waits_as_soon_as_the_output_does_not(
    tmp_path: Path,
) -> None:
    letter = FailedMessage("", "sink to", "output 1", "it is refused", "")
    with opened_store(tmp_path, sinks=("to", "lost")) as store:
        store.outbox.letter_outputs = LetterOutputs(with_letter_topic(keeps=True))
        publish(store.outbox, 1, b"refused")
        with store.writer.changed:  # so that nothing reaches the disk
            store.outbox.delivered(0, 1, refused=[RefusedOutput(letter, b"refused")])
            assert store.outbox.undelivered == 1
        store.writer.flush()
        assert store.outbox.undelivered == 1
        store.outbox.delivered(1, 1)
        assert store.outbox.undelivered == 0


@pytest.mark.parametrize("keeps", [True, False])
def test_a_dead_letter_that_its_own_sink_refuses_is_kept_and_not_published_again(
    tmp_path: Path, keeps: bool
) -> None:
    with opened_store(tmp_path, sinks=("to", "lost")) as store:
        store.outbox.letter_outputs = LetterOutputs(with_letter_topic(keeps=keeps))
        publish(store.outbox, 1, b"lost", sink=1)
        letter = FailedMessage("", "sink lost", "output 1", "it is too large", "")
        store.outbox.delivered(1, 1, refused=[RefusedOutput(letter, b"lost")])
        store.writer.flush()
        assert store.outbox.undelivered == 0
        with store.outbox.letters.transaction() as letters:
            assert [one.payload for one in letters.listed(Choice(), 99)] == [b"lost"]


@pytest.mark.parametrize("policy", [Policy.SET_ASIDE, Policy.DROP])
def test_refused_outputs_do_not_count_as_delivered(tmp_path: Path, policy: Policy) -> None:
    letter = FailedMessage("", "sink", "output 2", "it is refused", "b")
    with opened(tmp_path) as outbox:
        outbox.refusals = policy
        publish(outbox, 1, b"a", b"b", b"c")
        outbox.delivered(0, 3, refused=[RefusedOutput(letter, b"b")])
        assert (outbox.of_sink(0), outbox.counters()["delivered"]) == ((2, 0), 2)
    with opened(tmp_path) as outbox:
        assert (outbox.of_sink(0), outbox.counters()["delivered"]) == ((2, 0), 2)
        assert outbox.delivered_to(0) == 3
