"""`wallaroo shadow`: other code beside an application, here one that is recorded meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.test_rehearse import ALL_THE_SAME, SOURCE, changed
from tests.helpers import WORD_COUNT
from tests.history.harness import Recorded
from wallaroo.cli import shadow as shadow_module
from wallaroo.cli.main import main
from wallaroo.cli.options import application_without_addresses
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.log.scan import FollowedLog
from wallaroo.gateway.marks import mark_file

WORDS = [b"hello zebra", b"zoo Zebra", b"alpha\xff", b"it's"]


class Beside:
    """Word Count, which runs some words each time that its shadow waits for more.

    Args:
        directory: Its state directory.
        turns: What it does, one after the other; then the shadow gets a signal.
    """

    def __init__(self, directory: Path, turns: list[list[bytes]]) -> None:
        directory.mkdir()
        self.directory = directory
        # recorded beforehand: the shadow loads modules of the same names
        application = application_without_addresses(str(WORD_COUNT), ())
        recorded = Recorded(directory, application)
        (self._file,) = (directory / LOG).glob("log-*")
        self._stages = [self._file.read_bytes()]
        for words in turns:
            recorded.run([(SOURCE, word) for word in words])
            self._stages.append(self._file.read_bytes())
        recorded.close()
        mark_file(directory / LOG).unlink()
        self.goes_on()

    def goes_on(self) -> None:
        """Take the next turn."""
        if self._stages:
            with self._file.open("r+b") as opened:
                opened.write(self._stages.pop(0))
        else:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Beside]:
    def make(*turns: list[bytes]) -> Beside:
        made = Beside(tmp_path / f"state {len(turns)}", [*turns])

        class Stopping(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                made.goes_on()
                return super().wait(0 if self.is_set() else timeout)

        monkeypatch.setattr(shadow_module, "Event", Stopping)
        monkeypatch.setattr(shadow_module, "_LOOK_S", 0.0)
        monkeypatch.setattr(shadow_module, "_LOOK_PAUSE", 0.0)
        return made

    return make


def call(app: str, beside: Beside, *arguments: str) -> Result:
    asked = ["shadow", app, *arguments, "--state-dir", str(beside.directory)]
    return CliRunner().invoke(main, asked)


def test_the_same_code_comes_to_the_same(beside: Callable[..., Beside]) -> None:
    done = call(str(WORD_COUNT), beside(WORDS[:2], WORDS[2:]))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == ALL_THE_SAME
    (progress,) = done.stderr.splitlines()
    assert progress.endswith(" run again, up to date; 0 outputs and 0 entities differ")


def test_a_difference_is_shown_when_it_is_found(
    beside: Callable[..., Beside], tmp_path: Path
) -> None:
    app = changed(tmp_path, "line.lower()", "line")
    done = call(app, beside([b"hello"], [b"zoo Zebra"], [b"Yak"]), "--expect", SOURCE)
    assert done.exit_code == 1
    assert [line for line in done.stderr.splitlines() if " run again, " not in line] == [
        "sink 'Split and Count' differs",
        r"  only published: b'zebra => 1\n'",
        r"  only in this run: b'Zebra => 1\n'",
        "state 'word totals', as a whole: '!': + WordTotals(word_totals={'Zebra': 1}), after "
        "offset 1, b'zoo Zebra'",
        "state 'word totals', .word_totals[…]: 'z': .word_totals['zebra'] - 1, after offset 1, "
        "b'zoo Zebra'",
    ]
    assert "3 messages run again" in done.stdout
    everything = ("--expect", SOURCE, "--expect", "word totals")
    assert call(app, beside([b"hello"], [b"zoo Zebra"]), *everything).exit_code == 0


def test_a_name_that_nothing_has_is_told_with_the_result(beside: Callable[..., Beside]) -> None:
    done = call(str(WORD_COUNT), beside(WORDS), "--expect", "totals")
    assert done.exit_code == 2
    assert "there is nothing named 'totals' to differ" in done.stderr
    assert "messages run again" in done.stdout


def test_there_may_be_nothing_to_compare(beside: Callable[..., Beside]) -> None:
    done = call(str(WORD_COUNT), beside())
    assert (done.exit_code, done.stdout) == (0, "0 messages run again\n")


def test_it_ends_after_a_time(beside: Callable[..., Beside]) -> None:
    done = call(str(WORD_COUNT), beside(WORDS, *[[b"more"]] * 100), "--for", "0.5")
    assert done.exit_code == 0, done.output
    assert "run again" in done.stdout


def test_one_that_is_too_slow_shows_what_it_has_found(
    beside: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = beside(WORDS, [b"more"])
    goes_on, most = made.goes_on, [FollowedLog.MOST_RELEASED, -1]

    def too_fast() -> None:
        goes_on()
        monkeypatch.setattr(FollowedLog, "MOST_RELEASED", most.pop(0))

    monkeypatch.setattr(made, "goes_on", too_fast)
    done = call(str(WORD_COUNT), made)
    assert done.exit_code == 1
    assert "fallen too far behind" in done.stderr
    assert "messages run again" in done.stdout
