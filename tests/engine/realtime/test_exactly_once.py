"""A real-time query that is cut off at any moment: each message counts once, in order."""

from __future__ import annotations

import copy
import errno
import random
import struct
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wallaroo
from tests import plain_python, random_applications
from tests.engine.realtime.harness import (
    PATIENCE_S,
    RUN,
    GatewaySide,
    RunningQuery,
    Store,
    gateway_side,
    submit,
    wait_until_processed,
)
from tests.helpers import wait_until
from wallaroo.api.builder import DeclaredApplication
from wallaroo.dataflow.bucket_logs import log_name
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.engine.realtime.checkpoint import has_begun
from wallaroo.engine.realtime.feed import Feed
from wallaroo.engine.realtime.frames import head_in
from wallaroo.engine.realtime.partition_state import PartitionState
from wallaroo.engine.spark.errors import Failure
from wallaroo.engine.spark.slots import slots_for
from wallaroo.errors import DamagedFile, RuntimeFailure
from wallaroo.gateway import writer
from wallaroo.gateway.chunks import reports
from wallaroo.gateway.chunks.pace import Pace
from wallaroo.gateway.log.records import NoRoom
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.resolution.gathered_steps import longest_wait
from wallaroo.testing import simulate
from wallaroo.wire.chunk_messages import DAMAGED, CheckpointPosition, pack_json

_OUTPUT = struct.Struct(">4sQQ")


def text(payload: bytes) -> str:
    return payload.decode()


def packed(drawn: tuple[str, int, int]) -> bytes:
    return _OUTPUT.pack(drawn[0].encode(), *drawn[1:])


class Drawn:
    """An entity whose first message draws a number: state that cannot be recomputed."""

    def __init__(self) -> None:
        self.number = 0
        self.seen = 0


@wallaroo.state_computation(name="draw", state=Drawn)
def draw(key: str, state: Drawn) -> tuple[str, int, int]:
    state.number = state.number or random.getrandbits(60) | 1
    state.seen += 1
    return key, state.number, state.seen


def drawing() -> Application:
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(text)
    encoder = wallaroo.encoder(packed)
    stream = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decoder))
    counted = stream.key_by(lambda key: key).to(draw)
    return resolve(
        wallaroo.build_application(
            "drawing", counted.to_sink(wallaroo.TCPSinkConfig("", 0, encoder))
        )
    )


def pieces(choose: random.Random, sent: list[Any]) -> list[list[Any]]:
    """*sent* in up to four pieces."""
    cuts = sorted(choose.randint(0, len(sent)) for _ in range(choose.randint(0, 3)))
    return [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]


def paces(choose: random.Random) -> Pace:
    return Pace(
        chunks=choose.choice([1, 2, 4]),
        chunk_bytes=choose.choice([1, 200, 1 << 20]),
        gap_s=0.0,
        batch_messages=choose.choice([1, 5]),
        batch_wait_s=choose.choice([0.0, 0.01]),
        quiet_s=0.0,
        epoch_first_s=choose.choice([0.0, 0.02, 60.0]),
        epoch_least_s=choose.choice([0.0, 0.02, 60.0]),
    )


def run_through(
    gateway: GatewaySide,
    application: Application,
    sent: list[tuple[str, bytes]],
    choose: random.Random,
    directory: Path,
    state_bytes: int = 0,
) -> Store:
    """Process *sent* by a query that is cut off a few times, at any moment.

    Once Spark has all changes, it may continue with another number of partitions.
    """
    store, partitions, accepted = Store(), choose.randint(1, 3), 0
    store.takes_s = choose.choice([0.0, 0.005, 0.02])
    buckets = choose.choice([4, 8, 24])
    for attempt, piece in enumerate(pieces(choose, sent), 1):
        with RunningQuery(
            gateway,
            application,
            store,
            directory / "checkpoint",
            attempt,
            partitions,
            buckets,
            state_bytes=state_bytes,
        ) as query:
            submit(gateway, application, piece)
            accepted += len(piece)
            if choose.random() < 0.3:
                wait_until_processed(gateway, accepted)
                query.feed.finish_epoch()
                partitions = choose.randint(1, 3)
            elif choose.random() < 0.5:
                time.sleep(choose.random() / 200)  # any moment will do
    with RunningQuery(
        gateway,
        application,
        store,
        directory / "checkpoint",
        99,
        partitions,
        buckets,
        state_bytes=state_bytes,
    ) as query:
        wait_until_processed(gateway, len(sent))
        query.feed.finish_epoch()
    return store


@pytest.mark.filterwarnings("ignore::wallaroo.testing.HintWarning")
@pytest.mark.parametrize("made", [plain_python.declared, random_applications.declared])
@pytest.mark.parametrize("state_bytes", [0, 1])  # with 1, all entities leave after each chunk
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 1_000_000), choose=st.randoms(use_true_random=False))
def test_random_applications_give_what_the_simulation_gives(
    made: Callable[[random.Random], DeclaredApplication],
    state_bytes: int,
    seed: int,
    choose: random.Random,
) -> None:
    application = resolve(made(random.Random(seed)))
    names = [source.name for source in application.sources]
    sent = [
        (choose.choice(names), f"{choose.choice('abc')}{choose.randint(0, 30)}".encode())
        for _ in range(choose.randint(0, 40))
    ]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with gateway_side(directory, application, paces(choose)) as gateway:
            run_through(gateway, application, sent, choose, directory, state_bytes)
            outputs = gateway.outputs(application)
            counters = gateway.outbox.counters()
    expected = simulate(application, sent)
    for sink, of_sink in expected.by_sink.items():
        assert Counter(outputs[sink]) == Counter(of_sink)
    assert counters.get("set_aside", 0) == len(expected.set_aside)
    assert counters.get("late", 0) == len(expected.late)


def test_batched_steps_get_the_messages_that_they_wait_for(tmp_path: Path) -> None:
    batches: list[list[str]] = []

    @wallaroo.computation_batch(name="score", max=3, wait=wallaroo.minutes(1))
    def score(texts: list[str]) -> list[tuple[str, int, int]]:
        batches.append(texts)
        return [(one, 0, 0) for one in texts]

    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(text)
    stream = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decoder)).to(score)
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(packed))
    made = resolve(wallaroo.build_application("waiting", stream.to_sink(sink)))
    messages, wait_s = longest_wait(made)
    pace = Pace(batch_messages=messages, batch_wait_s=wait_s)
    with (
        gateway_side(tmp_path, made, pace) as gateway,
        RunningQuery(gateway, made, Store(), tmp_path / "checkpoint", 1, 1),
    ):
        for number in range(6):
            submit(gateway, made, [("in", b"%d" % number)])
        wait_until_processed(gateway, 6)
    assert [one for batch in batches for one in batch] == list("012345")
    assert min(map(len, batches)) == 3


@wallaroo.key_extractor
def first_letter(text: str) -> str:
    return text[:1]


@wallaroo.state_computation(name="number", state=Drawn)
def number(text: str, state: Drawn) -> str:
    state.seen += 1
    return f"{text}{state.seen}"


@wallaroo.key_extractor
def last_letter(text: str) -> str:
    return text[1:2]


def two_states(*, only_one: bool = False) -> Application:
    """Numbers messages by their first letter, then by their second."""
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(text)
    encoder = wallaroo.encoder(str.encode)
    stream = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decoder))
    numbered = stream.key_by(first_letter).to(number)
    if not only_one:
        numbered = numbered.key_by(last_letter).to(number_again)
    sink = wallaroo.TCPSinkConfig("", 0, encoder)
    return resolve(wallaroo.build_application("two states", numbered.to_sink(sink)))


@wallaroo.state_computation(name="number again", state=Drawn)
def number_again(text: str, state: Drawn) -> str:
    state.seen += 1
    return f"{text},{state.seen}"


@pytest.mark.parametrize("seed", range(10))
def test_messages_reach_a_later_state_in_order_of_arrival(seed: int, tmp_path: Path) -> None:
    choose, application = random.Random(seed), two_states()
    sent = [("in", f"{choose.choice('abcdef')}{choose.choice('xyz')}".encode()) for _ in range(300)]
    with gateway_side(tmp_path, application, paces(choose)) as gateway:
        run_through(gateway, application, sent, choose, tmp_path)
        (made,) = gateway.outputs(application).values()
    firsts, seconds = Counter[str](), Counter[str]()
    expected: dict[str, list[str]] = defaultdict(list)
    for _, payload in sent:
        first, second = chr(payload[0]), chr(payload[1])
        firsts[first] += 1
        seconds[second] += 1
        expected[second].append(f"{first}{second}{firsts[first]},{seconds[second]}")
    by_second: dict[str, list[str]] = defaultdict(list)
    for output in made:
        by_second[output.decode()[1]].append(output.decode())
    assert by_second == expected


def test_large_messages_go_past_spark(tmp_path: Path) -> None:
    application, store = two_states(), Store()
    large = "x" * 100_000
    with (
        gateway_side(tmp_path, application, Pace(chunks=1)) as gateway,
        RunningQuery(gateway, application, store, tmp_path / "c", 1, 2) as query,
    ):
        for _ in range(3):
            submit(gateway, application, [("in", f"a{large}".encode())] * 4)
        wait_until_processed(gateway, 12)
        (made,) = gateway.outputs(application).values()
        assert query.largest_frame < len(large)
    assert made == [f"a{large}{n},{n}".encode() for n in range(1, 13)]


@pytest.mark.parametrize("files", [False, True])
def test_messages_are_processed_while_spark_commits_an_epoch(files: bool, tmp_path: Path) -> None:
    application, store, letters = two_states(), Store(), "abcdef"
    sent = [f"{letters[n % 6]}{letters[n % 5]}".encode() for n in range(400)]
    pace = Pace(chunks=2, gap_s=0.0, epoch_first_s=60.0, epoch_least_s=0.0, quiet_s=0.0)
    with gateway_side(tmp_path, application, pace) as gateway:

        def run(attempt: int) -> RunningQuery:
            return RunningQuery(
                gateway, application, store, tmp_path / "c", attempt, 2, files=files
            )

        def process(start: int, end: int) -> None:
            submit(gateway, application, [("in", one) for one in sent[start:end]])
            wait_until_processed(gateway, end)

        with run(1):
            process(0, 50)
            wait_until(lambda: store.commits > 0, "an epoch")
            store.may_commit.clear()
            process(50, 100)
            before = store.place
            for start in range(100, 200, 10):  # an epoch has ended, and is not committed
                process(start, start + 10)
            assert store.place == before
            store.may_commit.set()
            wait_until(lambda: store.place != before, "the epoch")
            process(200, 250)
            store.may_commit.clear()
            process(250, 300)
            process(300, 350)
        # it was cut off before an epoch was committed, with chunks after that epoch published
        assert has_begun(tmp_path / "c", CheckpointPosition.from_json(store.place))
        store.may_commit.set()
        with run(2):
            process(350, 400)
        (made,) = gateway.outputs(application).values()
    firsts, seconds = Counter[int](), Counter[int]()
    expected: dict[int, list[bytes]] = defaultdict(list)
    for first, second in sent:
        firsts[first] += 1
        seconds[second] += 1
        expected[second].append(b"%c%c%d,%d" % (first, second, firsts[first], seconds[second]))
    by_second: dict[int, list[bytes]] = defaultdict(list)
    for output in made:
        by_second[output[1]].append(output)
    assert by_second == expected


def test_a_query_that_is_held_takes_no_message_until_it_is_released(tmp_path: Path) -> None:
    application, store = two_states(), Store()
    with (
        gateway_side(tmp_path, application) as gateway,
        RunningQuery(gateway, application, store, tmp_path / "c", 1, 2) as query,
    ):
        submit(gateway, application, [("in", b"a")] * 3)
        wait_until_processed(gateway, 3)
        for times in (1, 2):
            query.feed.hold()
            query.feed.finish_epoch()  # answered behind the request before
            submit(gateway, application, [("in", b"a")] * 4)
            accepted = 3 + 4 * times
            assert gateway.journal.wait_accepted(0, accepted, PATIENCE_S)
            query.feed.finish_epoch()
            assert gateway.journal.backlog == 4
            query.feed.release()
            wait_until_processed(gateway, accepted)
        (made,) = gateway.outputs(application).values()
    assert [output.split(b",")[0] for output in made] == [b"a%d" % n for n in range(1, 12)]


def closing() -> Application:
    """Counts messages in windows of the wall clock."""
    decoder = wallaroo.decoder(header_length=4, length_fmt=">I")(text)
    encoder = wallaroo.encoder(str.encode)
    stream = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decoder))
    window = wallaroo.range_windows(wallaroo.milliseconds(50)).over(Counted)
    counted = stream.key_by(first_letter).to(window)
    sink = wallaroo.TCPSinkConfig("", 0, encoder)
    return resolve(wallaroo.build_application("closing", counted.to_sink(sink)))


class Counted(wallaroo.Aggregation[str, list[str], str]):
    def initial_accumulator(self) -> list[str]:
        return []

    def update(self, message: str, accumulator: list[str]) -> None:
        accumulator.append(message)

    def combine(self, one: list[str], other: list[str]) -> list[str]:
        return one + other

    def output(self, key: str, accumulator: list[str]) -> str:
        return f"{key}{len(accumulator)}"


def test_windows_close_without_further_messages_also_after_a_crash(tmp_path: Path) -> None:
    application, store = closing(), Store()
    with gateway_side(tmp_path, application) as gateway:

        def counted() -> int:
            made = gateway.outputs(application).get(application.sinks[0].name, [])
            return sum(int(output[1:]) for output in made)

        def wait_until_counted(messages: int) -> None:
            wait_until(lambda: counted() == messages, "the windows")

        for attempt in (1, 2, 3):
            with RunningQuery(gateway, application, store, tmp_path / "c", attempt, 2):
                wait_until_counted(2 * (attempt - 1))
                submit(gateway, application, [("in", b"a"), ("in", b"b")])
                assert gateway.journal.flush(10)
        with RunningQuery(gateway, application, store, tmp_path / "c", 9, 2):
            wait_until_counted(6)


@pytest.mark.parametrize("seed", range(20))
def test_outputs_agree_with_the_state_that_a_crash_leaves(seed: int, tmp_path: Path) -> None:
    choose, application = random.Random(seed), drawing()
    sent = [("in", choose.choice([b"a", b"b", b"c", b"d"])) for _ in range(200)]
    with gateway_side(tmp_path, application, paces(choose)) as gateway:
        run_through(gateway, application, sent, choose, tmp_path)
        made = gateway.outputs(application)
    numbers: dict[bytes, list[int]] = defaultdict(list)
    drawn: dict[bytes, set[int]] = defaultdict(set)
    for output in next(iter(made.values())):
        key, number, seen = _OUTPUT.unpack(output)
        drawn[key].add(number)
        numbers[key].append(seen)
    expected = Counter(payload for _, payload in sent)
    for key, seen_by_key in numbers.items():
        assert len(drawn[key]) == 1
        assert seen_by_key == list(range(1, expected[key.rstrip(b"\0")] + 1))


def test_an_earlier_query_is_cut_off_by_a_later_one(tmp_path: Path) -> None:
    application, store = drawing(), Store()
    with gateway_side(tmp_path, application) as gateway:
        checkpoint = tmp_path / "checkpoint"
        with RunningQuery(gateway, application, store, checkpoint, 1, 2) as former:
            submit(gateway, application, [("in", b"a")])
            wait_until_processed(gateway, 1)
            with RunningQuery(gateway, application, store, checkpoint, 2, 2):
                submit(gateway, application, [("in", b"a")])
                wait_until_processed(gateway, 2)
                with pytest.raises(RuntimeFailure, match="cut off"):
                    former.feed.finish_epoch()
                zombie = RunningQuery(gateway, application, store, checkpoint, 1, 2)
                with zombie, pytest.raises(RuntimeFailure):
                    zombie.feed.finish_epoch()
        (outputs,) = gateway.outputs(application).values()
    assert len(outputs) == 2


def test_a_checkpoint_older_than_its_outbox_goes_on_with_what_was_published(
    tmp_path: Path,
) -> None:
    application, store = drawing(), Store()
    with gateway_side(tmp_path, application) as gateway:
        for attempt in (1, 2, 3):  # no epoch ends: Spark never has anything
            with RunningQuery(gateway, application, store, tmp_path / "c", attempt, 2):
                submit(gateway, application, [("in", b"a")])
                wait_until_processed(gateway, attempt)
        assert store.commits == 0
        (outputs,) = gateway.outputs(application).values()
    assert [_OUTPUT.unpack(output)[2] for output in outputs] == [1, 2, 3]


def test_the_stream_does_not_wait_for_a_driver_that_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Feed, "_receive", lambda _feed: None)
    monkeypatch.setattr(reports, "_EVERY_S", 0.0)
    application, count = drawing(), 2_000
    pace = Pace(chunk_bytes=1, gap_s=0.0)  # each message is reported by itself
    with (
        gateway_side(tmp_path, application, pace) as gateway,
        RunningQuery(gateway, application, Store(), tmp_path / "c", 1, 1),
    ):
        submit(gateway, application, [("in", b"a")] * count)
        wait_until_processed(gateway, count)


def test_changes_that_spark_has_are_forgotten(tmp_path: Path) -> None:
    application, store, pace = drawing(), Store(), Pace(quiet_s=60.0, epoch_first_s=60.0)
    with (
        gateway_side(tmp_path, application, pace) as gateway,
        RunningQuery(gateway, application, store, tmp_path / "c", 1, 1) as query,
    ):
        submit(gateway, application, [("in", b"a"), ("in", b"b")])
        wait_until_processed(gateway, 2)
        assert list(gateway.outbox.changes(RUN, 0, 0))
        query.feed.finish_epoch()
        assert not list(gateway.outbox.changes(RUN, 0, 0))
        query.feed.finish_epoch()  # with nothing to commit
    assert store.commits == 1


def test_a_backlog_does_not_end_an_epoch_with_each_chunk(tmp_path: Path) -> None:
    application, store, count = drawing(), Store(), 200
    pace = Pace(chunk_bytes=1, gap_s=0.0, journal_bytes=50 * 36)
    with gateway_side(tmp_path, application, pace) as gateway:
        submit(gateway, application, [("in", b"%032d" % n) for n in range(count)])
        gateway.journal.flush(PATIENCE_S)
        with RunningQuery(gateway, application, store, tmp_path / "c", 1, 1):
            wait_until_processed(gateway, count)
    assert 1 <= store.commits <= count // 25


def test_an_epoch_begins_once_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_RETRY_S", 0.001)
    application, store = drawing(), Store()
    with (
        gateway_side(tmp_path, application) as gateway,
        RunningQuery(gateway, application, store, tmp_path / "c", 1, 1) as query,
    ):
        submit(gateway, application, [("in", b"a")])
        wait_until_processed(gateway, 1)
        target, full = gateway.store.writer.log, [NoRoom(errno.ENOSPC, "full") for _ in range(3)]
        real = target.write

        def write() -> None:
            if full:
                raise full.pop()
            real()

        monkeypatch.setattr(target, "write", write)
        query.feed.finish_epoch()
        submit(gateway, application, [("in", b"a")])
        wait_until_processed(gateway, 2)
        assert query.feed.failure is None
        assert not full


@pytest.mark.parametrize(
    ("where", "what"),
    [(lambda gateway: gateway.outbox.chunks, "forget"), (lambda g: g.store.writer.log, "write")],
)
def test_a_log_that_cannot_be_written_ends_the_gateway(
    where: Callable[[GatewaySide], object],
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application, failure = drawing(), OSError(errno.EIO, "disk I/O error")

    def fail(*_arguments: object) -> NoReturn:
        raise failure

    with gateway_side(tmp_path, application) as gateway:
        monkeypatch.setattr(where(gateway), what, fail)
        with RunningQuery(gateway, application, Store(), tmp_path / "c", 1, 1):
            submit(gateway, application, [("in", b"a")])
            wait_until(lambda: gateway.failures, "the gateway to fail")
        assert gateway.failures == [failure]
        gateway.failures.clear()


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    application = drawing()
    with gateway_side(tmp_path, application) as gateway:
        with RunningQuery(gateway, application, Store(), tmp_path / "c", 1, 1):
            submit(gateway, application, [("in", b"a")])
            wait_until_processed(gateway, 1)
        lost = Store()
        lost.place = CheckpointPosition(1, 7, gateway.journal.opening).to_json()
        with RunningQuery(gateway, application, lost, tmp_path / "c", 2, 1) as query:
            with pytest.raises(
                RuntimeFailure, match="up to 1, and the checkpoint has those up to 7"
            ):
                query.feed.finish_epoch()
            assert query.feed.failure is not None
            assert query.feed.failure.final


def test_what_a_process_finds_damaged_ends_the_query_for_good(tmp_path: Path) -> None:
    application = drawing()
    with (
        gateway_side(tmp_path, application) as gateway,
        RunningQuery(gateway, application, Store(), tmp_path / "c", 1, 1) as query,
    ):
        submit(gateway, application, [("in", b"a")])
        wait_until_processed(gateway, 1)
        run = gateway.server._run
        assert run is not None
        frame = pack_json(DAMAGED, "the log of a bucket is old")
        gateway.loop.call(lambda: run.receive(0, frame))
        wait_until(lambda: query.feed.failure is not None, "the failure")
        assert query.feed.failure == Failure("the log of a bucket is old", final=True)


def test_logs_that_are_older_than_the_checkpoint_are_found(tmp_path: Path) -> None:
    """Even those of buckets that the last epoch did not change."""
    application, store = drawing(), Store()
    saved: list[Store] = []
    with (
        gateway_side(tmp_path, application) as gateway,
        RunningQuery(gateway, application, store, tmp_path / "c", 1, 1) as query,
    ):
        for number in (1, 2):
            submit(gateway, application, [("in", b"a")])
            wait_until_processed(gateway, number)
            query.feed.finish_epoch()
            saved.append(copy.copy(store))
    older, newest = (opened(one, application) for one in saved)
    chunk = CheckpointPosition.from_json(store.place).chunk
    newest.check_age(chunk)
    problem = "was last written at the end of 1, and the state is as"
    with pytest.raises(DamagedFile, match=problem):
        older.check_age(chunk)
    saved[0].place = store.place
    with (
        gateway_side(tmp_path, application) as gateway,
        RunningQuery(gateway, application, saved[0], tmp_path / "c", 2, 1) as query,
    ):
        wait_until(lambda: bool(query.damage), "the damage to be found")
        assert problem in query.damage[0]


def after_an_epoch(directory: Path) -> tuple[Application, Store]:
    """An application that has processed a message, and its saved state."""
    application, store = drawing(), Store()
    with (
        gateway_side(directory, application) as gateway,
        RunningQuery(gateway, application, store, directory / "c", 1, 1) as query,
    ):
        submit(gateway, application, [("in", b"a")])
        wait_until_processed(gateway, 1)
        query.feed.finish_epoch()
    return application, store


def test_logs_in_the_place_of_others_are_found(tmp_path: Path) -> None:
    application, store = after_an_epoch(tmp_path)
    first, second, *_ = slots_for(8)
    store.logs[first], store.logs[second] = store.logs[second], store.logs[first]
    with pytest.raises(DamagedFile, match=f"expected the log {log_name(RUN, 0)}, found"):
        opened(store, application)


def test_a_head_that_spark_hands_back_changed_is_found(tmp_path: Path) -> None:
    application, store = after_an_epoch(tmp_path)
    slot = slots_for(8)[0]
    head, records = store.logs[slot]
    assert head is not None
    store.logs[slot] = (head[:7] + bytes([head[7] ^ 1]) + head[8:], records)
    with pytest.raises(DamagedFile, match=r"the head .* does not match its checksum"):
        opened(store, application)


def opened(store: Store, application: Application) -> PartitionState:
    """The only partition of what is committed."""
    names = [partition.name for partition in application.partitions.values()]
    state = PartitionState(EntitySerializer(names), lambda _number, _key: 0, lambda _key: 0)
    for bucket, slot in enumerate(slots_for(8)):
        head, records = store.logs[slot]
        assert head is not None
        in_order = (record for _, record in sorted(records.items()))
        state.open(bucket, log_name(RUN, bucket), head_in(b"h" + head), in_order)
    return state


def test_the_first_epoch_ends_when_it_is_quiet_even_without_messages(tmp_path: Path) -> None:
    application, store = drawing(), Store()
    with (
        gateway_side(tmp_path, application, Pace(quiet_s=0.01)) as gateway,
        RunningQuery(gateway, application, store, tmp_path / "c", 1, 1),
    ):
        wait_until(lambda: store.commits == 1)
        submit(gateway, application, [("in", b"a")])
        wait_until_processed(gateway, 1)
    assert store.commits == 1
