"""Which message made an output, and which ones were late, on logs of applications."""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

import wallaroo
from tests import random_applications
from tests.gateway.harness import outputs
from tests.history.harness import Recorded, random_messages
from tests.history.test_explanation import Clock, Sum, applied
from tests.history.test_records import ROUNDS, released
from tests.history.totals import FACTOR, totals
from wallaroo.errors import UsageError
from wallaroo.gateway import store as store_module
from wallaroo.gateway import writer
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.log.log import Log
from wallaroo.history.changes import Change
from wallaroo.history.origins import (
    FoundOutput,
    LateMessages,
    Origin,
    WantedOutput,
    find_output,
    origin_of,
)
from wallaroo.history.records import records
from wallaroo.history.rehearsal import Rehearsal
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve


def origin(directory: Path, application: Application, text: str) -> tuple[FoundOutput, Origin]:
    """The output that *text* says, and what made it."""
    log = directory / LOG
    wanted = WantedOutput.parse(text, application)
    found = find_output(wanted, lambda end: records(log, end), application)
    return found, origin_of(found, application, records(log, found.record), 100)


def only(origin: Origin) -> Change:
    """The last change on the way to the output, if one message has made it."""
    assert origin.count == 1
    ((*_, change),) = origin.ways
    return change


def offset_of(change: Change) -> int:
    assert change.arrival is not None
    return change.arrival.offset


@pytest.mark.parametrize("seed", range(60))
def test_each_output_of_a_random_application_has_its_message(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    application = resolve(random_applications.declared(choose))
    recorded = Recorded(tmp_path, application)
    published: dict[tuple[str, int], tuple[bytes, int, int]] = {}
    """Each output, with the offsets of the messages that were published together with it."""
    numbers = Counter[str]()
    for _ in range(choose.randint(1, 4)):
        before, driven = recorded.end, recorded.driven
        made = {name: len(of_sink) for name, of_sink in driven.outputs.items()}
        recorded.run(random_messages(choose, application, 12), chunks=choose.randint(1, 3))
        for name, of_sink in driven.outputs.items():
            for output in of_sink[made.get(name, 0) :]:
                numbers[name] += 1
                published[name, numbers[name]] = output, before, recorded.end
        if choose.random() < 0.3:  # as after a kill
            recorded.close()
            recorded = Recorded(tmp_path, application, recorded)
    recorded.close()
    for name, number in choose.sample([*published], min(20, len(published))):
        found, made_by = origin(tmp_path, application, f"{name}:{number}")
        output, first, end = published[name, number]
        assert found.output == output
        assert not made_by.is_other
        for way in made_by.ways:
            assert (name, output) in way[-1].sent
            assert {first <= offset_of(change) < end for change in way} == {True}


def test_an_output_is_found_by_its_number_and_by_what_is_in_it(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, totals())
    for message in (b"ada 5", b"bob+ada 2", b"cyd 5", b"ada 0"):
        recorded.run([("numbers", message)])
    recorded.close()
    number = 1 + recorded.driven.outputs["numbers"].index(b"ada=7;")
    _, made = origin(tmp_path, totals(), f"numbers:{number}")
    assert (offset_of(only(made)), only(made).where) == (1, ("add", "ada"))
    assert (only(made).before["sum"], only(made).after["sum"]) == (5, 7)
    for text in ("numbers:ada=7;", "numbers:b'ada=7;'", "numbers:5"):
        found, made = origin(tmp_path, totals(), text)
        assert (found.number, offset_of(only(made))) == (5, 3)
    assert str(found) == "output 5 of sink 'numbers': b'ada=7;'"


def test_of_outputs_that_are_the_same_each_has_its_own_message(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 0")] * 6, chunks=2)
    recorded.close()
    for number in range(1, 7):
        _, made = origin(tmp_path, totals(), f"numbers:{number}")
        assert offset_of(only(made)) == number - 1


def test_what_code_makes_differently_now_is_the_message_whose_output_was_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FACTOR, 0, 10)
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 0"), ("numbers", b"bob 3"), ("numbers", b"cyd 0")])
    recorded.close()
    monkeypatch.undo()
    _, made = origin(tmp_path, totals(), "numbers:bob=30;")
    assert made.is_other
    assert offset_of(only(made)) == 1
    assert only(made).sent == [("numbers", b"bob=3;")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("numbers:9", "the log has no output 9 of sink 'numbers'; it has outputs 1 to 2"),
        ("numbers:-1", "the log has no output b'-1' of sink 'numbers'; it has outputs 1 to 2"),
        ("numbers:0", "the log has no output b'0' of sink 'numbers'; it has outputs 1 to 2"),
        ("numbers", "'numbers' is not SINK:NUMBER or SINK:TEXT, with a sink of the application, "),
        ("letters:1", "which are: 'numbers'"),
    ],
)
def test_an_output_that_is_not_there_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 5"), ("numbers", b"bob 5")])
    recorded.close()
    with pytest.raises(UsageError) as refused:
        origin(tmp_path, totals(), text)
    assert problem in str(refused.value)


def test_outputs_that_were_numbered_anew_have_their_new_numbers(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 1"), ("numbers", b"ada 2")])
    recorded.deliver()
    recorded.run([("numbers", b"ada 3"), ("numbers", b"ada 4")])
    recorded.store.writer.flush()
    recorded.store.resume(recorded.store.outbox.renewal("run", recorded.chunks, 4), ())
    recorded.run([("numbers", b"ada 5")])
    recorded.close()
    for number, offset in ((1, 2), (2, 3), (3, 4)):
        found, made = origin(tmp_path, totals(), f"numbers:{number}")
        assert offset_of(only(made)) == offset
        assert str(found).startswith(f"output {number} of")
    with pytest.raises(UsageError, match="no output 4 of sink 'numbers'; it has outputs 3 to 3"):
        origin(tmp_path, totals(), "numbers:4")


def test_outputs_of_a_publication_that_was_cut_short_are_none(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 1")])
    with recorded.store.writer.changed:  # as if a kill were between two writes
        recorded.store.outbox._append([outputs(b"lost", to=0)])
    recorded.store.writer.flush()
    recorded.close()
    recorded = Recorded(tmp_path, totals(), recorded)
    recorded.run([("numbers", b"ada 2")])
    recorded.close()
    found, made = origin(tmp_path, totals(), "numbers:2")
    assert (found.output, offset_of(only(made))) == (b"ada=3;", 1)
    rehearsal = Rehearsal.of(totals(), records(tmp_path / LOG))
    assert (rehearsal.sinks["numbers"].same, rehearsal.differing_names()) == (2, set())


@pytest.mark.parametrize("padding", [0, 700])
def test_an_output_whose_messages_are_gone_is_refused(
    tmp_path: Path, padding: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log may have part of the messages, or not the entity before them."""
    monkeypatch.setattr(writer, "Log", partial(Log, segment_bytes=4_000))
    monkeypatch.setattr(store_module, "_RELEASE_EVERY_S", 0.0)
    released(tmp_path, 30_000, padding)
    with pytest.raises(UsageError, match=r"outputs .* to .*; --archive reads what the run has"):
        origin(tmp_path, totals(), "numbers:1")
    first = int(refused_range(tmp_path).replace(",", ""))
    reasons = Counter[str]()
    for number in range(first, 3 * ROUNDS + 1):
        try:
            found, made = origin(tmp_path, totals(), f"numbers:{number}")
            assert ("numbers", found.output) in only(made).sent
            reasons["found"] += 1
        except UsageError as error:
            reasons[str(error).rpartition("; ")[2].partition(", as")[0]] += 1
    assert reasons["found"] > ROUNDS // 4
    assert reasons.total() - reasons["found"] <= 6, reasons


def refused_range(directory: Path) -> str:
    """Number of the first output in the log."""
    with pytest.raises(UsageError) as refused:
        origin(directory, totals(), "numbers:1")
    (first,) = re.findall("it has outputs ([0-9,]+) to", str(refused.value))
    return str(first)


def test_a_late_message_is_there_with_its_window(tmp_path: Path) -> None:
    def time_of(message: tuple[str, int]) -> int:
        return wallaroo.seconds(10**9 + message[1])

    windows = wallaroo.range_windows(wallaroo.seconds(10)).with_event_time(time_of).over(Sum)
    application, clock = applied(windows), Clock()
    recorded = Recorded(tmp_path, application, clock=clock, uptime=clock.uptime)
    recorded.run([("numbers", b"ada 5"), ("numbers", b"ada 900"), ("numbers", b"ada 6")])
    recorded.run([("numbers", b"bob 5"), ("numbers", b"ada 901"), ("numbers", b"ada 7")])
    recorded.close()
    late = LateMessages(application, records(tmp_path / LOG))
    found = list(late)
    assert [offset_of(change) for change in found] == [2, 5]
    assert {change.error for change in found} == {"it came too late for its windows"}
    assert late.missing == 0
    assert list(LateMessages(application, records(tmp_path / LOG), "other")) == []
