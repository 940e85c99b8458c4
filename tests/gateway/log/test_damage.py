"""Logs whose files were changed: what is read was written, and what is lost is named."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.gateway.log.model import DIRECTORY, HEADER, Model
from tests.gateway.log.simulated_disk import File, SimulatedDisk
from wallaroo.errors import RESTORE
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import (
    HEADER as RECORD_HEADER,
)
from wallaroo.gateway.log.records import (
    SKIPPED,
    SNAPSHOT,
    DamagedLog,
    Record,
)
from wallaroo.gateway.log.scan import scan
from wallaroo.gateway.log.segments import HEAD_BYTES

_SEEDS = 100
Change = Callable[[random.Random, SimulatedDisk], None]


def _written(rng: random.Random, *, records: int = 40, each: bool = True) -> Model:
    """A log of some segments; recycled ones among them."""
    model = Model(SimulatedDisk(), 600)
    model.recover()
    for number in range(records):
        model.append(rng.randrange(3, 256), rng.randbytes(rng.choice((0, 10, 40, 100))))
        if each or rng.random() < 0.3:
            model.write()
            model.sync()
        if number == records // 3:
            model.release(model.log.next - 1)
    model.write()
    model.sync()
    model.log.close()
    return model


def _read(records: Iterator[Record]) -> tuple[list[Record], DamagedLog | None]:
    """What is read, and the damage that ends it."""
    read: list[Record] = []
    try:
        for record in records:
            read.append(record._replace(payload=bytes(record.payload)))  # noqa: PERF401
    except DamagedLog as damage:
        return read, damage
    return read, None


def _log(disk: SimulatedDisk) -> Log:
    return Log(DIRECTORY, lambda: [b"state"], segment_bytes=600, disk=disk)


def _file(rng: random.Random, disk: SimulatedDisk) -> File:
    return disk.names_seen[rng.choice(_segments(disk))]


def _segments(disk: SimulatedDisk) -> list[str]:
    return sorted(name for name in disk.names_seen if name.startswith("log-"))


def _record(rng: random.Random, data: bytearray) -> slice:
    """Where a record is in a segment."""
    places = []
    at = HEAD_BYTES
    while at + HEADER <= len(data):
        end = at + HEADER + RECORD_HEADER.unpack_from(data, at)[1]
        if end > len(data):
            break
        places.append(slice(at, end))
        at = end
    return rng.choice(places)


def _flip(rng: random.Random, disk: SimulatedDisk) -> None:
    data = _file(rng, disk).seen
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(rng: random.Random, disk: SimulatedDisk) -> None:
    data = _file(rng, disk).seen
    at = rng.randrange(len(data))
    end = min(len(data), at + rng.choice((1, 20, 100, 300)))
    data[at:end] = bytes(end - at) if rng.random() < 0.5 else rng.randbytes(end - at)


def _cut(rng: random.Random, disk: SimulatedDisk) -> None:
    data = _file(rng, disk).seen
    del data[rng.randrange(len(data)) :]


def _repeat(rng: random.Random, disk: SimulatedDisk) -> None:
    data, other = _file(rng, disk).seen, _file(rng, disk).seen
    place, record = _record(rng, data), other[_record(rng, other)]
    data[place.start : place.start + len(record)] = record


def _swap(rng: random.Random, disk: SimulatedDisk) -> None:
    data = _file(rng, disk).seen
    one, other = sorted((_record(rng, data), _record(rng, data)), key=lambda place: place.start)
    if one != other:
        data[one.start : other.stop] = data[other] + data[one.stop : other.start] + data[one]


def _insert(rng: random.Random, disk: SimulatedDisk) -> None:
    data = _file(rng, disk).seen
    at = rng.randrange(len(data))
    data[at:at] = rng.randbytes(rng.choice((1, 30)))


def _remove(rng: random.Random, disk: SimulatedDisk) -> None:
    data = _file(rng, disk).seen
    place = _record(rng, data)
    del data[place]


def _exchange(rng: random.Random, disk: SimulatedDisk) -> None:
    one, other = _file(rng, disk), _file(rng, disk)
    one.seen, other.seen = other.seen, one.seen


def _lose(rng: random.Random, disk: SimulatedDisk) -> None:
    del disk.names_seen[rng.choice(_segments(disk))]


def _of_another_log(rng: random.Random, disk: SimulatedDisk) -> None:
    if len(_segments(disk)) == 1:
        # nobody could tell that it is not this one
        return
    other = _written(random.Random(rng.randrange(3))).disk
    name = rng.choice(_segments(disk))
    disk.names_seen[name] = other.names_seen[rng.choice(_segments(other))]


@pytest.mark.parametrize(
    "change",
    [_flip, _overwrite, _cut, _repeat, _swap, _insert, _remove, _exchange, _lose, _of_another_log],
)
@pytest.mark.parametrize("each", [True, False])
def test_no_change_makes_a_wrong_record(change: Change, each: bool) -> None:
    seen: Counter[str] = Counter()
    for seed in range(_SEEDS):
        rng = random.Random(seed)
        model = _written(rng, each=each)
        disk = model.disk.copy()
        change(rng, disk)
        original = [model.appended[number] for number in range(model.kept, model.log.next)]
        for records, damage in (_read(scan(DIRECTORY, disk=disk)), _read(_log(disk).recover())):
            begin = records[0].number - model.kept if records else 0
            assert records == original[begin : begin + len(records)], seed
            if damage is not None:
                # it is named where it is
                assert str(damage.file) in str(damage)
                assert RESTORE in str(damage)
                assert damage.first >= model.kept
                if records:
                    assert damage.first == records[-1].number + 1
                seen["named"] += 1
            elif records == original:
                seen["nothing lost"] += 1
            elif begin:
                assert change is _lose
            else:
                seen["shorter"] += 1
    assert seen["named"] or change is _lose
    assert seen["shorter"] or change in {_exchange, _of_another_log}


def test_what_was_synced_before_a_record_is_named() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        model = _written(rng)
        disk = model.disk.copy()
        last = model.log.next - 1
        damaged = rng.randrange(model.kept, last - 1)
        record = model.appended[damaged]
        segment = max(
            (one for one in model.log._segments if one.head.address <= record.address),
            key=lambda one: one.head.address,
        )
        data = disk.names_seen[segment.file.name].seen
        begin = HEAD_BYTES + record.address - segment.head.address
        at = begin + rng.randrange(HEADER + len(record.payload))
        data[at] ^= 1 << rng.randrange(8)
        records, damage = _read(_log(disk).recover())
        assert damage is not None
        assert (damage.file, damage.first, damage.last) == (segment.file, damaged, damaged)
        assert damage.data == data[begin : begin + HEADER + len(record.payload)]
        assert f"at byte {begin}, record {damaged} is not as written" in str(damage)
        assert len(records) == damaged - model.kept


@pytest.mark.parametrize("change", [_flip, _overwrite, _cut, _repeat, _swap, _insert])
def test_what_is_damaged_can_be_skipped(change: Change) -> None:
    seen: Counter[str] = Counter()
    for seed in range(_SEEDS):
        rng = random.Random(seed)
        model = _written(rng)
        disk = model.disk.copy()
        for _ in range(rng.randrange(1, 3)):
            change(rng, disk)
        skipped: dict[int, tuple[int, bytes]] = {}

        def skip(damage: DamagedLog) -> bytes:
            assert damage.last is not None
            assert damage.room is not None
            payload = b"p" * min(damage.room, 7)
            skipped[damage.first] = damage.last, payload  # noqa: B023
            return payload

        log = _log(disk)
        records, damage = _read(log.recover(skip=skip))
        if damage is not None:
            # nothing is left that says where records belong
            assert damage.room is None
            seen["hopeless"] += 1
            continue
        expected, number = [], model.kept
        while number < log.next:
            record = model.appended[number]
            if number in skipped:
                number, payload = skipped[number]
                record = record._replace(kind=SKIPPED, payload=payload)
            expected.append(record)
            number += 1
        assert records == expected, seed
        seen["skipped"] += bool(skipped)
        seen["several skipped"] += any(last > first for first, (last, _) in skipped.items())
        seen["snapshot skipped"] += any(
            model.appended[number].kind == SNAPSHOT for number in skipped
        )
        _check_sound(disk.after_crash(rng), expected, rng)
    assert seen["skipped"]
    assert seen["several skipped"] or change is _flip
    assert seen["snapshot skipped"] or change in {_insert, _cut}
    assert seen["hopeless"] < 20, seen


def _check_sound(disk: SimulatedDisk, expected: list[Record], rng: random.Random) -> None:
    """Check that a log can be read, and appended to."""
    assert _read(scan(DIRECTORY, disk=disk)) == (expected, None)
    log = _log(disk)
    assert _read(log.recover()) == (expected, None)
    assert _read(log.records(expected[0].address)) == (expected, None)
    number = log.next
    for payload in (b"further", rng.randbytes(500), b"records"):
        log.append(7, payload)
    log.write()
    log.sync()
    log.close()
    records, damage = _read(_log(disk).recover())
    assert damage is None
    assert records[: len(expected)] == expected
    further = [record.payload for record in records[len(expected) :] if record.kind == 7]
    assert further[0] == b"further"
    assert records[-1].payload == b"records"
    assert records[len(expected)].number == number
    assert disk.open_files == 1
