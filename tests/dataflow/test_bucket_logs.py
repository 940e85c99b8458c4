"""A bucket's head proves that the log under it is its own, and as it was written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import pytest

from wallaroo.dataflow.bucket_logs import Head, check_age, checked, log_name
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.errors import RESTORE, DamagedFile

NAME = log_name('{"id":"a-b"}', 3)


@dataclass
class Log:
    head: Head
    records: list[bytes] = field(default_factory=list)

    def opened(self) -> set[str]:
        """The keys that a process reads."""
        serializer = EntitySerializer(["words"])
        return set(serializer.read(checked(NAME, self.head, self.records)).entities[0])


def record(key: str) -> bytes:
    return EntitySerializer(["words"]).record(Changes([{key: [key]}], [set()]))


def log_of(*keys: str, name: str = NAME) -> Log:
    """The log of a bucket after chunks, each of which gives one key an entity."""
    log = Log(Head.of(name))
    for chunk, key in enumerate(keys):
        log.records.append(record(key))
        log.head = log.head.appended(log.records[-1], chunk)
    return log


def test_a_log_as_it_was_written_is_read() -> None:
    assert log_of("a", "b", "c").opened() == {"a", "b", "c"}


def test_a_log_that_was_replaced_by_a_base_is_read() -> None:
    log = log_of("a", "b")
    base = EntitySerializer(["words"]).record(Changes([{"a": 1, "b": 2}], [set()]))
    log.head = log.head.rebased(base, log.records[-1])
    log.records = [base, log.records[-1]]
    assert log.head.log_bytes == log.head.base_bytes == len(base)
    assert log.opened() == {"a", "b"}
    log.records.append(record("c"))
    log.head = log.head.appended(log.records[-1], 2)
    assert log.opened() == {"a", "b", "c"}


@pytest.mark.parametrize("place", range(3))
def test_a_changed_record_is_found(place: int) -> None:
    log = log_of("a", "b", "c")
    changed = bytearray(log.records[place])
    changed[len(changed) // 2] ^= 1
    log.records[place] = bytes(changed)
    with pytest.raises(DamagedFile, match="does not match its checksum") as told:
        log.opened()
    assert str(told.value).endswith(RESTORE)


@pytest.mark.parametrize("place", range(3))
def test_a_missing_record_is_found(place: int) -> None:
    log = log_of("a", "b", "c")
    del log.records[place]
    with pytest.raises(DamagedFile, match="are not those that its head belongs to"):
        log.opened()


def test_records_of_another_log_are_found() -> None:
    log = Log(log_of("a", "b").head, log_of("a", "c").records)
    with pytest.raises(DamagedFile, match="are not those that its head belongs to"):
        log.opened()


@pytest.mark.parametrize(("run", "bucket"), [("a-b", 4), ("a-c", 3)])
def test_a_log_of_another_bucket_or_run_is_found(run: str, bucket: int) -> None:
    name = log_name(f'{{"id":"{run}"}}', bucket)
    expected = f"expected the log {NAME}, found {name}"
    with pytest.raises(DamagedFile, match=re.escape(expected)):
        log_of("a", name=name).opened()


def test_an_older_log_is_found() -> None:
    check_age(log_of("a", "b").head, 1)
    with pytest.raises(DamagedFile, match="was last written at the end of 1, and the state is as"):
        check_age(log_of("a", "b").head, 2)
    with pytest.raises(DamagedFile, match=f"the log {NAME} does not exist"):
        check_age(Head.of(NAME), 2)


def test_a_changed_head_is_found() -> None:
    head = log_of("a", "b").head
    numbers = [head.count, head.base_bytes, head.tail_bytes]
    assert Head.from_text(head.text(), *numbers) == head
    for place in range(3):
        changed = [number + (place == index) for index, number in enumerate(numbers)]
        with pytest.raises(DamagedFile, match=r"the head .* does not match its checksum"):
            Head.from_text(head.text(), *changed)
    for text in ("", "1 2 3 4", head.text().replace("a-b", "a-c"), head.text()[:-1]):
        with pytest.raises(DamagedFile, match=r"the head .* does not match its checksum"):
            Head.from_text(text, *numbers)


def test_records_without_a_head_are_found() -> None:
    log = log_of("a")
    with pytest.raises(DamagedFile, match="are not those that its head belongs to"):
        list(checked(NAME, None, log.records))
    with pytest.raises(DamagedFile, match="expected the log"):
        list(checked(NAME, replace(log.head, log=""), log.records))
