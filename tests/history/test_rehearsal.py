"""Rehearsals that begin with a saved state, and rehearsals in progress."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from shutil import copytree

import pytest

import wallaroo
from tests import random_applications
from tests.helpers import wait_until
from tests.history.harness import Recorded, random_messages
from tests.history.test_explanation import RINGING, Clock, applied
from tests.history.totals import FACTOR, Total, totals
from wallaroo.dataflow.json_codec import to_plain
from wallaroo.engine.stored import Committed
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway import store as store_module
from wallaroo.gateway import writer
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import SNAPSHOT
from wallaroo.history.records import beginning_with, followed, records
from wallaroo.history.rehearsal import DEAD_LETTERS, UNSAVABLE, Kind, Rehearsal
from wallaroo.resolution.application import resolve

SUM = Kind("add", ".sum")


def rehearsed(directory: Path, beginning: Committed | None = None) -> Rehearsal:
    return Rehearsal.of(totals(), records(directory / LOG), beginning)


@pytest.mark.parametrize("seed", range(80))
def test_the_same_code_comes_to_the_same_from_any_state_on(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    application = resolve(random_applications.declared(choose))
    recorded = Recorded(tmp_path, application)
    after = 0
    beginning = recorded.committed()
    for _ in range(choose.randint(2, 8)):
        if choose.random() < 0.4:
            beginning, after = recorded.committed(), 0
        sent = random_messages(choose, application, 30)
        recorded.run(sent, chunks=choose.randint(1, 3))
        after += len(sent)
        if choose.random() < 0.2:  # as after a kill
            recorded.close()
            recorded = Recorded(tmp_path, application, recorded)
    state = recorded.driven.state()
    recorded.close()
    rehearsal = Rehearsal.of(application, records(tmp_path / LOG), beginning)
    assert rehearsal.messages == after
    assert rehearsal.knows_all
    assert rehearsal.differing_names() == set()
    assert rehearsal.entities() == {name: len(entities) for name, entities in state.items()}


def test_an_unknown_entity_begins_as_the_last_of_the_chunks_published_together_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "Log", partial(Log, segment_bytes=1))
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 1")])
    recorded.run([("numbers", b"bob 1")])
    begins = recorded.end

    def flush() -> None:
        assert recorded.store.journal.flush(10)

    recorded.run([("numbers", b"ada 2"), ("numbers", b"ada 3")], chunks=2, between=flush)
    recorded.run([("numbers", b"ada 4")])
    recorded.close()
    found = [one._replace(payload=bytes(one.payload)) for one in records(tmp_path / LOG)]
    (begin,) = [
        place
        for place, one in enumerate(found)
        if one.kind == SNAPSHOT and beginning_with(one) == begins
    ]
    rehearsal = Rehearsal.of(totals(), found[begin:])
    assert (rehearsal.knows_all, rehearsal.messages) == (False, 3)
    assert rehearsal.differing_names() == set()


def test_other_code_differs_from_the_state_on_with_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 5"), ("numbers", b"bob 1"), ("numbers", b"cyd 1")])
    beginning = recorded.committed()
    recorded.run([("numbers", b"ada 2"), ("numbers", b"bob -1"), ("numbers", b"ada 3")])
    recorded.close()
    monkeypatch.setitem(FACTOR, 0, 10)
    rehearsal = rehearsed(tmp_path, beginning)
    assert (rehearsal.messages, rehearsal.letters, rehearsal.new_letters) == (3, 1, 1)
    assert rehearsal.differing_names() == {"numbers", "add"}
    assert rehearsal.sinks["numbers"].missing == {b"ada=7;": 1, b"ada=10;": 1}
    assert rehearsal.sinks["numbers"].further == {b"ada=25;": 1, b"ada=55;": 1}
    (example,) = rehearsal.kinds()[SUM]
    assert str(example.difference) == ".sum 10 → 55"
    assert example.arrival is not None
    assert (example.key, example.arrival.offset, example.arrival.message) == ("ada", 5, b"ada 3")


def test_what_was_published_together_with_the_last_of_the_state_is_not_run(
    tmp_path: Path,
) -> None:
    first, second = b"ada 5", b"ada+bob 2"
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    apart = Recorded(tmp_path / "one", totals())
    apart.run([("numbers", first)])
    beginning = apart.committed()
    apart.close()
    together = Recorded(tmp_path / "other", totals())
    beginning = beginning._replace(opening=together.store.journal.opening)
    together.run([("numbers", first), ("numbers", second)], chunks=2)
    together.run([("numbers", b"bob 4")])
    together.close()
    rehearsal = rehearsed(tmp_path / "other", beginning)
    assert rehearsal.messages == 1
    assert rehearsal.differing_names() == set()
    assert rehearsal.sinks["numbers"].same == 1
    assert rehearsal.entities() == {"add": 2}


def test_a_state_of_another_directory_is_refused(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 5")])
    recorded.close()
    with pytest.raises(UsageError, match="of different state directories"):
        rehearsed(tmp_path, Committed("another run", 0, []))


def test_a_state_of_a_copy_that_has_continued_separately_is_refused(tmp_path: Path) -> None:
    (tmp_path / "original").mkdir()
    before = Recorded(tmp_path / "original", totals())
    before.run([("numbers", b"ada 1")])
    shared = before.committed()
    copytree(tmp_path / "original", tmp_path / "copy")
    before.run([("numbers", b"ada 2")])
    of_original = before.committed()
    before.run([("numbers", b"ada 3")])
    before.close()
    copied = Recorded(tmp_path / "copy", totals())
    copied.chunks = 1
    copied.run([("numbers", b"ada 4")])
    of_copy = copied.committed()
    copied.run([("numbers", b"ada 5")])
    copied.close()
    for directory, own, foreign in (
        ("original", of_original, of_copy),
        ("copy", of_copy, of_original),
    ):
        assert rehearsed(tmp_path / directory, own).messages == 1
        assert rehearsed(tmp_path / directory, shared).messages == 2
        with pytest.raises(
            UsageError, match="copies of a state directory that have continued separate"
        ):
            rehearsed(tmp_path / directory, foreign)


def test_a_state_older_than_the_log_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "Log", partial(Log, segment_bytes=4_000))
    monkeypatch.setattr(store_module, "_RELEASE_EVERY_S", 0.0)
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 1")])
    beginning = recorded.committed()
    for _ in range(30):
        recorded.run([("numbers", b"ada 1")] * 3)
        recorded.checkpoint()
    recorded.store.journal.alarm.set(None)
    files = tmp_path / LOG
    wait_until(lambda: len([*files.glob("log-*")]) == 1, "the release of segments")
    recorded.run([("numbers", b"ada 1")])
    latest = recorded.committed()
    recorded.run([("numbers", b"ada 1")])
    recorded.close()
    with pytest.raises(UsageError, match=r"and the state to begin with ends before offset 1; "):
        rehearsed(tmp_path, beginning)
    assert not rehearsed(tmp_path).knows_all
    rehearsal = rehearsed(tmp_path, latest)
    assert (rehearsal.messages, rehearsal.sinks["numbers"].same) == (1, 1)


def test_an_entity_that_the_code_cannot_load_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 5"), ("numbers", b"bob 5")])
    beginning = recorded.committed()
    recorded.run([("numbers", b"cyd 5")])
    recorded.close()

    other = totals()
    monkeypatch.delattr("tests.history.totals.Total")
    with pytest.raises(RuntimeFailure, match=r"key 'ada': .* 2 entities cannot be loaded"):
        Rehearsal.of(other, records(tmp_path / LOG), beginning)


def test_differences_are_found_as_it_goes_on_and_may_go_again(
    tmp_path: Path,
) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 5")])
    turns = [b"ada 0", b"ada 1", b"ada -5"]

    def waits() -> bool:
        if turns:
            recorded.run([("numbers", turns.pop(0))])
            return True
        return False

    with followed(tmp_path / LOG, waits) as found:
        rehearsal = Rehearsal(totals(), found(0))
        seen = []
        for _ in rehearsal:
            rehearsal.compare()
            seen.append({*rehearsal.kinds()})
            if len(seen) == 1:
                entity = rehearsal._replay.rerun.result.state["add"]["ada"]
                entity.sum += 1
            elif len(seen) == 2:
                entity.sum -= 1
    recorded.close()
    assert seen == [set(), {SUM}, set(), set()]
    assert {*rehearsal.passed} == {SUM}
    assert rehearsal.differing_names() == {"numbers", "add"}
    assert to_plain(entity)["sum"] == 6
    assert (rehearsal.letters, DEAD_LETTERS in rehearsal.differing_names()) == (1, False)


class Seen:
    def __init__(self) -> None:
        self.count = 0
        self.note: object = None


def test_an_entity_that_has_expired_is_the_same_whether_it_was_freed_or_not(tmp_path: Path) -> None:
    @wallaroo.state_computation(name="seen", state=Seen, ttl=wallaroo.seconds(32))
    def see(message: tuple[str, int], seen: Seen) -> tuple[str, int]:
        seen.count += 1
        return message[0], seen.count

    application, clock = applied(see), Clock()
    recorded = Recorded(tmp_path, application, clock=clock, uptime=clock.uptime)
    clock.now_ns += 300_000_000
    recorded.run([("numbers", b"ada 1")])
    clock.now_ns += 32_500_000_000  # it is freed with others, at the end of the next two seconds
    recorded.tick()
    assert recorded.driven.state()["seen"]
    recorded.close()
    rehearsal = Rehearsal.of(application, records(tmp_path / LOG))
    assert rehearsal.differing_names() == set()


def test_entities_that_cannot_be_saved_are_dead_letters(tmp_path: Path) -> None:
    notes: list[object] = [None]

    @wallaroo.state_computation(name="seen", state=Seen)
    def see(message: tuple[str, int], seen: Seen) -> tuple[str, int]:
        seen.note = notes[0]
        return message[0], 1

    application = applied(see)
    recorded = Recorded(tmp_path, application)
    recorded.run([("numbers", b"ada 1")])
    recorded.close()
    notes[0] = lambda: None
    rehearsal = Rehearsal.of(application, records(tmp_path / LOG))
    assert rehearsal.differing_names() == {"seen", DEAD_LETTERS}
    (example,) = rehearsal.kinds()[Kind("seen", UNSAVABLE)]
    assert "state.note cannot be saved" in str(example.difference)


def test_messages_that_fail_are_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 5"), ("numbers", b"ada 6")])
    recorded.close()
    monkeypatch.delitem(FACTOR, 0)
    rehearsal = rehearsed(tmp_path)
    assert (rehearsal.letters, rehearsal.new_letters) == (0, 2)
    first, _ = rehearsal.failed
    assert first.step == "add"
    assert first.error.startswith("KeyError: 0 (totals.py:")
    assert first.arrival is not None
    assert first.arrival.message == b"ada 5"


class Unshown:
    def __repr__(self) -> str:
        msg = "no"
        raise RuntimeError(msg)

    def __reduce__(self) -> str:
        return "UNSHOWN"


UNSHOWN = Unshown()


def test_entities_that_cannot_be_shown_are_compared(tmp_path: Path) -> None:
    @wallaroo.state_computation(name="seen", state=Seen)
    def see(message: tuple[str, int], seen: Seen) -> tuple[str, int]:
        seen.note = UNSHOWN
        return message[0], 1

    application = applied(see)
    recorded = Recorded(tmp_path, application)
    recorded.run([("numbers", b"ada 1")])
    recorded.close()
    rehearsal = Rehearsal.of(application, records(tmp_path / LOG))
    assert rehearsal.differing_names() == set()


def test_other_code_may_have_no_timers(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, applied(RINGING))
    recorded.run([("numbers", b"ada 5")])
    beginning = recorded.committed()
    recorded.run([("numbers", b"ada 5")])
    recorded.close()

    @wallaroo.state_computation(name="ring", state=Total)
    def keep(message: tuple[str, int], total: Total) -> None:
        total.sum += message[1]

    rehearsal = Rehearsal.of(applied(keep), records(tmp_path / LOG), beginning)
    assert (rehearsal.messages, rehearsal.differing_names()) == (1, set())
