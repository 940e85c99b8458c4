"""State that is read while messages flow and parts are killed: as of the position that is told."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.helpers import wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, kill_gateway, processes, run
from wallaroo.client import Entity, Sender, State
from wallaroo.errors import RuntimeFailure
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"
LETTERS = "abcdefgh"


class Reader(threading.Thread):
    """Reads the totals of letters for as long as it lives."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._state = State(url, "word totals")
        self.found: list[Entity] = []
        self.problems: list[str] = []
        self.ended = False

    def run(self) -> None:
        reads = 0
        while not self.ended:
            reads += 1
            try:
                if reads % 10:
                    entity = self._state.get(LETTERS[reads % len(LETTERS)])
                    self.found += [entity] if entity is not None else []
                else:
                    self.found += self._state.entities()
            except RuntimeFailure as error:
                self.problems.append(str(error))
        self._state.close()


def kill_java(running: BackgroundRun) -> None:
    (java,) = processes(running, "bin/java")
    os.kill(java, signal.SIGKILL)


def test_what_is_read_has_seen_each_line_before_its_position_once(tmp_path: Path) -> None:
    line, sent = " ".join(LETTERS).encode(), 0
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, tmp_path / "state") as running,
    ):
        reader = Reader(running.wait_for_event("ready", PATIENCE_S)["dashboard"])
        reader.start()
        with Sender(running.sources[SOURCE], "lines", timeout_s=PATIENCE_S) as sender:
            for kill in (None, kill_gateway, kill_java):
                if kill is not None:
                    kill(running)
                read, before = len(reader.found), sent

                def goes_on(read: int = read, before: int = before) -> bool:
                    nonlocal sent
                    sender.send(line)
                    sent += 1
                    return any(one.position > before for one in reader.found[read:])

                wait_until(goes_on, "a later position to be read", PATIENCE_S, (0.001, 0.1))
            sender.flush()
        running.wait_until_processed()
        reader.ended = True
        reader.join()
        with State(running.wait_for_event("ready", 0)["dashboard"], "word totals") as state:
            last = state.get("a")
        assert running.stop() == 0
    assert last is not None
    assert (last.value["word_totals"], last.position) == ({"a": sent}, sent)
    for one in reader.found:
        assert one.value["word_totals"] == {one.key: one.position}
    assert reader.problems, "no call met a part that was away"
    assert all("try again" in one or "away" in one or "gateway" in one for one in reader.problems)
