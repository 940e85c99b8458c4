"""The live view says what a run does, and does not mix with what is typed at its terminal."""

from __future__ import annotations

import io
import os
import pty
import sys
import termios
from collections.abc import Iterator

import pytest
from rich.console import Console

from tests.dashboard.feed import AWAY, START, Feed, serving
from tests.dashboard.viewer import Viewer
from tests.helpers import wait_until
from wallaroo.run import live_view
from wallaroo.run.live_view import LiveView, line
from wallaroo.system import terminal
from wallaroo.system.terminal import Echo, is_in_foreground


@pytest.fixture
def slave() -> Iterator[int]:
    """A terminal that this process does not control, and nobody reads."""
    master, opened = pty.openpty()
    yield opened
    os.close(opened)
    os.close(master)


def echoes(descriptor: int) -> bool:
    return bool(termios.tcgetattr(descriptor)[3] & termios.ECHO)


def test_a_terminal_of_others_and_what_is_none_are_not_in_the_foreground(slave: int) -> None:
    with open(os.devnull) as file:  # noqa: PTH123
        assert not is_in_foreground(file.fileno())
    assert not is_in_foreground(slave)
    assert not is_in_foreground(-1)


def test_echo_stops_and_resumes_in_the_foreground_only(
    slave: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo = Echo(slave)
    echo.stop()
    assert echoes(slave)
    monkeypatch.setattr(terminal, "is_in_foreground", lambda _terminal: True)
    echo.stop()
    echo.stop()
    assert not echoes(slave)
    assert termios.tcgetattr(slave)[3] & termios.ISIG  # Ctrl-C works
    echo.resume()
    assert echoes(slave)


def test_the_view_is_shown_while_it_is_in_the_foreground(
    slave: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreground = [True]
    for module in (terminal, live_view):
        monkeypatch.setattr(module, "is_in_foreground", lambda _terminal: foreground[0])

    class Screen(io.StringIO):
        def fileno(self) -> int:
            return slave

    screen = Screen()
    console = Console(file=screen, force_terminal=True, force_interactive=True)
    view = LiveView("made", lambda _after, _timeout_s: None, console)
    of_shell = termios.tcgetattr(slave)
    with view:
        wait_until(lambda: not echoes(slave), "the view")
        foreground[0] = False
        wait_until(lambda: not view._live.is_started, "the removal")
        with view._shown:  # after all of the removal
            termios.tcsetattr(slave, termios.TCSADRAIN, of_shell)
            foreground[0] = True
        wait_until(lambda: view._live.is_started and not echoes(slave), "the view again")
    assert echoes(slave)
    assert not view._live.is_started
    assert sys.stderr is not screen


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def viewer(feed: Feed) -> Iterator[Viewer]:
    with serving(feed) as dashboard:
        dashboard.viewer.snapshot(START)
        yield dashboard.viewer


def test_a_run_that_works_has_figures_only(feed: Feed, viewer: Viewer) -> None:
    feed.set(1, alive=2)
    assert line(viewer.snapshot(START + 1)) == (
        "in 0/s  out 0/s  p99 –  backlog 0  undelivered 0  workers 2/2  connections 0  set aside 0"
        "  dropped 7"
    )


def test_a_pause_and_an_interruption_come_first(feed: Feed, viewer: Viewer) -> None:
    feed.pause.since = START
    feed.set(1, interruption="the query restarts: a worker\x1b died")
    shown = line(viewer.snapshot(START + 1))
    assert "  paused  the query restarts: a worker\\x1b died  backlog 0" in shown


def test_a_source_that_waits_for_a_table_is_told(feed: Feed, viewer: Viewer) -> None:
    feed.set(1, waits="waits for table 'Dates'")
    assert "  Split and Count waits for table 'Dates'  backlog 0" in line(
        viewer.snapshot(START + 1)
    )


def test_a_gateway_that_is_away_is_told(feed: Feed, viewer: Viewer) -> None:
    feed.set(1, away=True)
    wait_until(lambda: viewer.ask("/snapshot").json["away"], "the reason")
    assert f"  {AWAY}  backlog 0" in line(viewer.ask("/snapshot").json)
