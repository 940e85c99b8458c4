"""Entities beyond a limit of memory: what leaves, what stays, and what a full disk does."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

import pytest

import wallaroo
from tests.dataflow.single_bucket import Engine
from tests.engine.realtime.harness import (
    RunningQuery,
    Store,
    gateway_side,
    submit,
    wait_until_processed,
)
from tests.engine.realtime.texts import decode, encode
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.savable import Codec
from wallaroo.dataflow.stored_records import LocalStoreFailed
from wallaroo.engine.realtime import state_memory
from wallaroo.engine.realtime.partition_state import PartitionState
from wallaroo.engine.realtime.state_copy import note, noted
from wallaroo.engine.realtime.state_memory import StateMemory
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.wire.chunk_messages import CheckpointPosition
from wallaroo.wire.look_ups import LookUp


def memory_of(
    directory: Path, limit_bytes: int, codec: Codec | None = None, states: int = 1
) -> StateMemory:
    serializer = EntitySerializer(
        [f"state {number}" for number in range(states)], {} if codec is None else {0: codec}
    )
    return StateMemory(limit_bytes, directory, serializer, lambda _, key: hash(key) % 4)


class Customer:
    def __init__(self, notes: str = "") -> None:
        self.orders, self.notes = 0, notes


class Nested:
    def __init__(self, number: int) -> None:
        self.rows = [{"number": number + one, "name": f"row {one}"} for one in range(20)]


@pytest.mark.parametrize("kind", [lambda n: Customer(f"{n:01000}"), Nested])
def test_entities_take_about_what_they_may(tmp_path: Path, kind: Any) -> None:
    memory = memory_of(tmp_path, 3_000_000)
    (entities,) = memory.states
    for start in range(0, 10_000, 500):
        entities.update({f"key {number}": kind(number) for number in range(start, start + 500)})
        memory.settle()
    in_memory = [one for key, one in entities.pairs() if key in entities._memory]
    assert len(entities) == len(in_memory) + memory.stored[0] == 10_000
    assert 2_000_000 < sum(map(_bytes_of, in_memory)) < 4_000_000


def _bytes_of(entity: Any) -> int:
    """What an entity takes, with its key and what memory takes for that."""
    if isinstance(entity, Customer):
        return 160 + 60 + sys.getsizeof(entity) + sys.getsizeof(entity.notes) + 100
    rows = sum(sys.getsizeof(row) + 28 + sys.getsizeof(row["name"]) for row in entity.rows)
    return 160 + 60 + sys.getsizeof(entity) + sys.getsizeof(entity.rows) + rows + 100


def test_states_share_the_memory_by_what_they_take(tmp_path: Path) -> None:
    memory = memory_of(tmp_path, 2_000_000, states=2)
    for number in range(3_000):
        memory.states[0][number] = "x" * 1_000
        if number < 300:
            memory.states[1][number] = "x" * 1_000
    memory.settle()
    assert memory.states[0].in_memory > memory.states[1].in_memory > 0
    assert sum(one.memory_bytes for one in memory.states) < 2_000_000


def test_entities_that_refer_to_themselves_are_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_memory, "_LEAST_FREED", 100)
    memory, alive = memory_of(tmp_path, 1), weakref.WeakSet[Customer]()
    for number in range(300):
        customer = Customer()
        customer.itself = customer  # type: ignore[attr-defined]
        alive.add(customer)
        memory.states[0][number] = customer
        del customer
        gc.freeze()  # as between two chunks
        if number % 50 == 49:
            memory.settle()
    assert len(alive) < 250
    found = memory.states[0][7]
    assert found.itself is found


def test_a_codec_saves_what_leaves(tmp_path: Path) -> None:
    codec = Codec(
        lambda entity: json.dumps(vars(entity)), lambda text: Customer(**json.loads(text))
    )
    dumped: list[str] = []

    def dump(entity: Customer) -> str:
        dumped.append(entity.notes)
        return json.dumps({"notes": entity.notes})

    memory = memory_of(tmp_path, 1, codec=Codec(dump, codec.load))
    memory.states[0]["a"] = Customer("gold")
    memory.settle()
    assert (memory.stored, dumped) == ([1], ["gold"])
    assert memory.states[0]["a"].notes == "gold"


def test_an_entity_that_can_be_saved_but_not_loaded_stays(tmp_path: Path) -> None:
    def refuse(_: Any) -> Any:
        raise ValueError

    memory = memory_of(tmp_path, 1, codec=Codec(repr, refuse))
    memory.states[0]["a"] = [1]
    memory.settle()
    assert memory.stored == [0]
    assert memory.states[0]["a"] == [1]


def test_the_log_says_if_the_directory_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(state_memory, "log_event", lambda _level, event, **_: told.append(event))
    monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")
    assert state_memory.local_directory() == Path("/dev/shm")
    assert "let TMPDIR name one on a disk" in told[0]
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    state_memory.local_directory()
    assert len(told) == 1


def test_a_small_state_is_noted_from_both(tmp_path: Path) -> None:
    memory = memory_of(tmp_path, 1)
    state = PartitionState(EntitySerializer(["state 0"]), lambda *_: 0, lambda _: 0, memory)
    state.bucket.entities[0].update({number: [number] for number in range(20)})
    state.settle()
    state.bucket.entities[0].prefetch(range(5))
    note(tmp_path, 0, 1, 7, state)
    (record,) = noted(tmp_path, 1, CheckpointPosition(70, 7)) or []
    assert EntitySerializer(["state 0"]).read([record]).entities[0] == {n: [n] for n in range(20)}
    assert memory.states[0].in_memory == 5


def test_only_so_many_logs_are_replaced_at_the_end_of_an_epoch(tmp_path: Path) -> None:
    """Records of all entities of all buckets at once would take as long as a start."""
    serializer, buckets = EntitySerializer(["state 0"]), 64
    memory = StateMemory(1 << 30, tmp_path, serializer, lambda _, key: key % buckets)
    state = PartitionState(
        serializer, lambda _, key: key % buckets, lambda key: key % buckets, memory
    )
    for bucket in range(buckets):
        state.open(bucket, f"log-{bucket}", None, [])
    entities = {key: bytes(500_000) for key in range(buckets)}
    state.bucket.entities[0].update(entities)
    state.record(Changes([dict(entities)], [set()]))
    state.end_epoch(1)
    assert all(state.save(bucket).base for bucket in range(buckets))  # as much as has changed
    for chunk in range(2, 5):
        some = {key: bytes(500_000) for key in range(buckets)}
        state.bucket.entities[0].update(some)
        state.record(Changes([some], [set()]))
        state.end_epoch(chunk)
        replaced = sum(state.save(bucket).base is not None for bucket in range(buckets))
    assert replaced


@wallaroo.key_extractor
def first_word(message: str) -> str:
    return message.split(maxsplit=1)[0]


@wallaroo.state_computation(name="add", state=Customer)
def add(message: str, customer: Customer) -> str:
    customer.orders += 1
    return f"{message} {customer.orders}"


def counting() -> Application:
    stream = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decode))
    sink = wallaroo.TCPSinkConfig("", 0, encode)
    counted = stream.key_by(first_word).to(add).to_sink(sink)
    return resolve(wallaroo.build_application("Counting", counted))


def test_a_running_query_tells_what_is_stored_and_shows_it(tmp_path: Path) -> None:
    application = counting()
    with gateway_side(tmp_path, application) as gateway:
        checkpoint = tmp_path / "checkpoint"
        with RunningQuery(gateway, application, Store(), checkpoint, 1, 1, state_bytes=1) as query:
            for messages in (50, 10):
                before = sum(gateway.journal.accepted.values())
                for number in range(messages):
                    submit(gateway, application, [("in", f"k{number} x".encode())])
                wait_until_processed(gateway, before + messages)
            pages = query.feed.look_up([LookUp("add", "k7"), LookUp("add", most=60)])
            (found,), all_found = (page["found"] for page in pages)
            assert found["entity"]["orders"] == 2
            assert [one["key"] for one in all_found] == sorted(f"k{n}" for n in range(50))
        samples = {
            sample.metric.name: sample.value
            for sample in gateway.outbox._metrics.samples([["in"]])
            if isinstance(sample.value, float | int)
        }
    assert samples["wallaroo_state_entities"] == 50
    assert samples["wallaroo_state_stored_entities"] >= 40
    assert samples["wallaroo_state_stored_bytes"] > 0
    assert samples["wallaroo_state_stored_reads_total"] >= 10


def test_a_full_disk_makes_no_message_a_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends instead, and another one begins with what is published."""
    monkeypatch.setattr(Engine, "limit_bytes", 1)
    engine = Engine(counting())
    engine.run_task(engine.packed(["a x", "b x"]), isolated=False)
    assert engine.memory is not None
    store = engine.memory._stores[0]
    store._segments[0].close()  # what reads it fails
    for isolated in (False, True):
        with pytest.raises(LocalStoreFailed, match=r"the local store of entities in .* failed"):
            engine.run_task(engine.packed(["c x", "a x"]), isolated=isolated)
    assert not engine.tally.letters
