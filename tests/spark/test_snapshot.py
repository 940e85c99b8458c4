"""Snapshots of an application that runs, and of one that is stopped; runs of these copies."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from tests.spark.harness import APPS, Receiver, kill_gateway, run, send
from wallaroo.cli.main import main
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

APP = APPS / "word_count"
SOURCE = "Split and Count"
SOON = "epoch_first_s=0.3,epoch_least_s=0.2,epoch_most_s=0.4,quiet_s=0.1"
"""Several epochs end while a snapshot is made."""
WORDS = 400
TAKEN = re.compile(
    r"position ([\d,]+), (?:no )?epoch ?(\d*), (\d+) messages? waiting, (\d+) outputs? undelivered"
)


def payload(number: int) -> bytes:
    """A message that makes two outputs."""
    return b"w%d x" % (number % WORDS)


class Traffic:
    """Sends messages on one connection after the other, no faster than their outputs come."""

    def __init__(self, running: BackgroundRun, receiver: Receiver) -> None:
        self._address, self._receiver = running.sources[SOURCE], receiver
        self.sent = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.03):
            send(self._address, map(payload, range(self.sent, self.sent + 50)))
            self.sent += 50
            self._receiver.wait_for(2 * self.sent - 500)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


class Taken(NamedTuple):
    """A snapshot, and what the command has said of it."""

    copy: Path
    position: int
    epoch: int
    waiting: int
    undelivered: int


def take(state: Path, copy: Path, *app: str) -> Taken:
    command = ["snapshot", *app, "--state-dir", str(state), "--to", str(copy)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    found = TAKEN.search(result.output)
    assert found is not None, result.output
    return Taken(copy, *(int(part.replace(",", "") or -1) for part in found.groups()))


def check_run_of(taken: Taken, app: Path = APP) -> None:
    """Run a copy with the messages that it does not have: nothing is lost, nothing doubled.

    The outputs of each word follow those that the original had delivered, and these are as many as
    the copy says.
    """
    accepted = taken.position + taken.waiting
    end = accepted + 300
    delivered = 2 * taken.position - taken.undelivered
    with Receiver("lines") as receiver, run(app, receiver, taken.copy) as running:
        send(running.sources[SOURCE], map(payload, range(accepted, end)))
        lines = receiver.wait_for(2 * end - delivered)
        assert running.stop() == 0
        assert len(receiver.messages) == len(lines)
    due = defaultdict[bytes, int](int)
    for number in range(end):
        for word in payload(number).split():
            due[word] += 1
    counts = defaultdict[bytes, list[int]](list)
    for line in lines:
        word, count = line.split(b" => ")
        counts[word].append(int(count))
    for word, came in counts.items():
        assert came == list(range(due[word] - len(came) + 1, due[word] + 1)), word


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALLAROO_PACE", SOON)


@pytest.mark.usefixtures("soon")
def test_each_snapshot_of_a_running_application_continues_from_its_moment(tmp_path: Path) -> None:
    state, taken = tmp_path / "state", list[Taken]()
    with Receiver("lines") as receiver, run(APP, receiver, state) as running:
        traffic = Traffic(running, receiver)
        try:
            while len(taken) < 8 or taken[-1].epoch < 5:
                taken.append(take(state, tmp_path / f"copy-{len(taken)}"))
        finally:
            traffic.stop()
        receiver.wait_for(2 * traffic.sent)
        assert running.stop() == 0
        assert len(receiver.messages) == 2 * traffic.sent
    assert [one.position for one in taken] == sorted(one.position for one in taken)
    for one in (taken[0], taken[-1]):
        check_run_of(one)


@pytest.mark.usefixtures("soon")
def test_a_snapshot_of_a_stopped_application_and_one_of_a_killed_one(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Receiver("lines") as receiver, run(APP, receiver, state) as running:
        send(running.sources[SOURCE], map(payload, range(500)))
        receiver.wait_for(1000)
        assert running.stop() == 0
    stopped = take(state, tmp_path / "stopped")
    assert stopped[1:] == (500, stopped.epoch, 0, 0)
    with Receiver("lines") as receiver, run(APP, receiver, state) as running:
        send(running.sources[SOURCE], map(payload, range(500, 600)))
        receiver.wait_for(100)
        kill_gateway(running)
        running.process.kill()
        running.process.wait()
    killed = take(state, tmp_path / "killed")
    check_run_of(stopped)
    check_run_of(killed)
