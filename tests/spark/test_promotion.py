"""A run goes on with other code when that is requested: nothing is lost, doubled or out of order.

All in one run, because starting one takes longest.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.helpers import wait_until
from tests.run.reload.application import change, write
from tests.spark.harness import PATIENCE_S, Receiver, called, processes, run
from tests.spark.test_reload import stream, told, words
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

ENDS = """
import os, pathlib
imports = pathlib.Path(__file__).with_name("imports")
imports.touch()
with imports.open("a") as file:
    file.write("x")
if imports.stat().st_size > 3:  # that of the command, of the trial and of the run work
    os._exit(9)
"""
MIGRATION = """
@wallaroo.migrate(Total, from_version=1)
def migrated(fields):
    raise ValueError("no total")
"""

PAGE = Path(__file__).parents[2] / "docs" / "explaining.md"
(SHOWN,) = re.findall(
    r"```console\n\$ wallaroo promote [^\n]*\n(.*?)```", PAGE.read_text(), re.DOTALL
)


def _general(printed: str) -> str:
    """*printed* without what depends on the application and on when its last checkpoint was."""
    first = r"\A(the new code loads \d+ entit(?:y|ies)|there is no checkpoint yet, .*)"
    return re.sub(r"with [^;\n]*;", "…", re.sub(first, "…", printed))


def version(directory: Path, word: str) -> Path:
    """A new version of the application, which begins its outputs with *word*."""
    directory.mkdir()
    change(write(directory), '"one"', f'"{word}"', "texts.py")
    return directory


def promote(new: Path, state: Path) -> subprocess.CompletedProcess[str]:
    return called("promote", new, "--state-dir", state)


def test_a_run_goes_on_with_the_code_that_is_promoted(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (tmp_path / "old").mkdir()
    old = write(tmp_path / "old")
    with (
        Receiver("lines") as receiver,
        run(old, receiver, state, options=["--workers", "1"]) as running,
    ):
        with stream(running.sources["Keys"]) as sent:
            receiver.wait_for(10)
            done = promote(version(tmp_path / "second", "two"), state)
            assert _general(done.stderr + done.stdout) == _general(SHOWN)
            wait_until(lambda: "two" in words(receiver), "the code", PATIENCE_S)
            _refuse_what_does_not_work(tmp_path, state)
            _go_back_from_code_that_ends_its_processes(tmp_path, state, running)
            receiver.wait_for(len(receiver.messages) + 10)
            # it is the promoted code that a process has that is started again
            os.kill(max(processes(running, "realtime.agent")), signal.SIGKILL)
            receiver.wait_for(len(receiver.messages) + 50)
            third = version(tmp_path / "third", "three")
            shadow = called("shadow", third, "--state-dir", state, "--for", 2, "--promote")
            assert shadow.returncode == 1, "outputs differ, and nothing is promoted"
            shadow = called(
                *("shadow", third, "--state-dir", state, "--for", 2, "--promote"),
                *("--expect", "Keys"),
            )
            assert "promoted: " in shadow.stdout, shadow.stderr
            wait_until(lambda: "three" in words(receiver), "the code", PATIENCE_S)
        receiver.wait_for(sent[0])
        assert running.stop() == 0
    assert [int(line.split()[-1]) for line in receiver.messages] == list(range(1, sent[0] + 1))
    assert words(receiver) == ["one", "two", "three"]
    assert not list(state.glob("promotion*"))
    refused = promote(third, state)
    assert refused.returncode == 2
    assert "no application runs with the state" in refused.stderr


def _refuse_what_does_not_work(tmp_path: Path, state: Path) -> None:
    other = version(tmp_path / "other", "other")
    change(other, '"reloaded"', '"another"')
    refused = promote(other, state)
    assert refused.returncode == 2
    assert "belongs to 'reloaded', not to 'another'" in refused.stderr
    broken = version(tmp_path / "broken", "broken")
    with (broken / "application.py").open("a") as file:
        file.write(MIGRATION)
    refused = promote(broken, state)
    assert refused.returncode == 1
    assert "no total" in refused.stderr


def _go_back_from_code_that_ends_its_processes(
    tmp_path: Path, state: Path, running: BackgroundRun
) -> None:
    ends, kills = version(tmp_path / "ends", "ends"), version(tmp_path / "kills", "kills")
    with (ends / "application.py").open("a") as file:
        file.write(ENDS)
    change(kills, "total.messages += 1", "__import__('os')._exit(9)")
    for new in (ends, kills):
        refused = promote(new, state)
        assert refused.returncode == 1
        assert "the run continues with its previous code" in refused.stderr
        assert "ended with exit code 9" in refused.stderr
    for event in told(running, "gone back to the previous code"):
        assert "ended with exit code 9" in event["reason"]


def test_a_run_that_ends_meanwhile_is_told_of(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (tmp_path / "old").mkdir()
    with Receiver("lines") as receiver, run(write(tmp_path / "old"), receiver, state) as running:
        slow = version(tmp_path / "slow", "two")
        with (slow / "application.py").open("a") as file:
            file.write(f"\nimport os, pathlib, time\nif os.getppid() == {running.process.pid}:\n")
            file.write(
                "    pathlib.Path(__file__).with_name('tried').touch()\n    time.sleep(60)\n"
            )
        ended: list[subprocess.CompletedProcess[str]] = []
        asking = threading.Thread(target=lambda: ended.append(promote(slow, state)))
        asking.start()
        wait_until((slow / "tried").exists, "the trial", PATIENCE_S)
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait(PATIENCE_S)
        asking.join(PATIENCE_S)
    assert ended[0].returncode == 1
    assert "the run has ended before" in ended[0].stderr
