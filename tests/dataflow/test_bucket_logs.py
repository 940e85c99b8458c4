"""A bucket's head proves that the log under it is its own, and as it was written."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.dataflow.single_bucket import Log
from wallaroo.dataflow.bucket_logs import (
    Expected,
    Head,
    Stamp,
    Written,
    check_age,
    checked,
    log_name,
)
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntityCache
from wallaroo.errors import RESTORE, DamagedFile

NAME = log_name('{"id":"a-b"}', 1, 3)


def log_of(*keys: str, name: str = NAME, start: int = 0) -> Log:
    """The log of a bucket after batches, each of which gives one key an entity."""
    log, cache = Log(), EntityCache(["words"])
    for at, key in enumerate(keys, start):
        stamp = Stamp(name, at)
        changes = Changes.none(1)
        changes.changed[0][key] = cache.open(3, log, stamp).entities[0][key] = [key]
        assert cache.commit(3, log, changes, stamp)
    return log


def opened(log: Log, expected: int | None = None) -> set[str]:
    """The keys that a process without the bucket reads."""
    stamp = Stamp(NAME, 9, lambda: Expected(None if expected is None else Written(expected)))
    return set(EntityCache(["words"]).open(3, log, stamp).entities[0])


def test_a_log_as_it_was_written_is_read() -> None:
    assert opened(log_of("a", "b", "c"), expected=2) == {"a", "b", "c"}


def test_a_log_that_was_replaced_by_a_base_is_read() -> None:
    log = log_of("a", "b" * EntityCache.MIN_LOG_BYTES, "c")
    assert -1 in log.by_place
    assert opened(log, expected=2) == {"a", "b" * EntityCache.MIN_LOG_BYTES, "c"}


@pytest.mark.parametrize("place", range(3))
def test_a_changed_record_is_found(place: int) -> None:
    log = log_of("a", "b", "c")
    record = bytearray(log.by_place[place])
    record[len(record) // 2] ^= 1
    log.by_place[place] = bytes(record)
    with pytest.raises(DamagedFile, match="does not match its checksum") as told:
        opened(log)
    assert str(told.value).endswith(RESTORE)


@pytest.mark.parametrize("place", range(3))
def test_a_missing_record_is_found(place: int) -> None:
    log = log_of("a", "b", "c")
    del log.by_place[place]
    with pytest.raises(DamagedFile, match="are not those that its head belongs to"):
        opened(log)


def test_records_of_another_log_are_found() -> None:
    log, other = log_of("a", "b"), log_of("a", "c")
    log.by_place = other.by_place
    with pytest.raises(DamagedFile, match="are not those that its head belongs to"):
        opened(log)


@pytest.mark.parametrize(("run", "level", "bucket"), [("a-b", 1, 4), ("a-b", 2, 3), ("a-c", 1, 3)])
def test_a_log_of_another_bucket_level_or_run_is_found(run: str, level: int, bucket: int) -> None:
    name = log_name(f'{{"id":"{run}"}}', level, bucket)
    expected = f"expected the log {NAME}, found {name}"
    with pytest.raises(DamagedFile, match=re.escape(expected)):
        opened(log_of("a", name=name))


def test_an_older_log_is_found() -> None:
    with pytest.raises(DamagedFile, match="was last written at the end of 1, and the state is as"):
        opened(log_of("a", "b"), expected=2)
    with pytest.raises(DamagedFile, match=f"the log {NAME} does not exist"):
        opened(Log(), expected=2)
    check_age(NAME, None, Expected())  # nothing is known of it


def test_a_log_of_an_attempt_that_failed_is_found() -> None:
    """Spark's files of it may stay under those of the attempt that counts."""
    counts, failed = log_of("a", "b"), log_of("a", "c")
    sums = [head.sum for log in (counts, failed) if (head := log.head()) is not None]
    due = Expected(Written(1, sums[0]))
    stamp = Stamp(NAME, 2, lambda: due)
    assert set(EntityCache(["words"]).open(3, counts, stamp).entities[0]) == {"a", "b"}
    with pytest.raises(DamagedFile, match=f"the log {NAME} was written by a failed"):
        EntityCache(["words"]).open(3, failed, stamp)

    cache, first = EntityCache(["words"]), log_of("a")
    cache.open(3, first, Stamp(NAME, 1))
    cache.commit(3, first, Changes.none(1), Stamp(NAME, 1))
    known = first.head()
    assert known is not None
    record = log_of("c").by_place[0]
    first.append(known.appended(record, 1), record)
    with pytest.raises(DamagedFile, match="was written by a failed attempt of chunk 1"):
        cache.open(3, first, Stamp(NAME, 2, lambda: due))


def test_a_log_that_only_an_attempt_that_failed_has_written_is_found() -> None:
    head = log_of("a", "b").head()
    problem = f"the log {NAME} was written by a failed attempt of chunk 1"
    for last in (None, Written(0, 7)):
        with pytest.raises(DamagedFile, match=problem):
            check_age(NAME, head, Expected(last, range(1, 2)))
        for noted in (range(0), range(1), range(2, 5)):  # nothing is known of batch 1
            check_age(NAME, head, Expected(last, noted))


def test_a_changed_head_is_found() -> None:
    head = log_of("a", "b").head()
    assert head is not None
    numbers = [head.count, head.base_bytes, head.tail_bytes]
    assert Head.from_text(head.text(), *numbers) == head
    for place in range(3):
        changed = [number + (place == index) for index, number in enumerate(numbers)]
        with pytest.raises(DamagedFile, match=r"the head .* does not match its checksum"):
            Head.from_text(head.text(), *changed)
    for text in ("", "1 2 3 4", head.text().replace("a-b", "a-c"), head.text()[:-1]):
        with pytest.raises(DamagedFile, match=r"the head .* does not match its checksum"):
            Head.from_text(text, *numbers)


def test_records_of_another_log_are_found_by_a_process_that_only_lacks_the_last() -> None:
    log, cache = log_of("a"), EntityCache(["words"])
    stamp = Stamp(NAME, 1)
    cache.open(3, log, stamp)
    cache.commit(3, log, Changes.none(1), stamp)
    elsewhere, changes = EntityCache(["words"]), Changes.none(1)
    changes.changed[0]["b"] = elsewhere.open(3, log, stamp).entities[0]["b"] = ["b"]
    elsewhere.commit(3, log, changes, stamp)
    (_, _, other) = log_of("x", "y", "z").by_place.values()
    log.by_place[1] = other
    with pytest.raises(DamagedFile, match=r"the last 1 records of the log .* are not those"):
        cache.open(3, log, stamp)


def test_records_without_a_head_are_found() -> None:
    log = log_of("a")
    with pytest.raises(DamagedFile, match="are not those that its head belongs to"):
        list(checked(NAME, None, log.records()))
    head = log.head()
    assert head is not None
    with pytest.raises(DamagedFile, match="expected the log"):
        list(checked(NAME, replace(head, log=""), log.records()))
