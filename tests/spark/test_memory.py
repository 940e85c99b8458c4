"""Memory that runs out: the kernel kills each process of a run in turn, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.helpers import MISBEHAVING, processes_below, wait_until
from tests.memory_group import memory_group
from tests.spark.harness import PATIENCE_S, Receiver, processes, run, send
from wallaroo.cli.main import main
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

_MIB = 1024**2
SOURCE = "Texts"
WORKERS = "realtime.agent"
"""What the command lines of worker processes, and of their parents, have in them."""


def use_up_memory_of(pids: Sequence[int]) -> None:
    """Let the kernel kill each of *pids* as soon as it needs more memory than it has."""
    for pid in pids:
        with memory_group() as group:
            group.limit(0)
            group.add(pid)
            wait_until(lambda group=group: group.kills, "the OOM killer", PATIENCE_S)  # type: ignore[misc]


def letters(state: Path) -> list[tuple[str, str]]:
    command = ["dead-letters", "list", "--json", "--state-dir", str(state)]
    listing = CliRunner().invoke(main, command)
    found = [json.loads(line) for line in listing.stdout.splitlines()]
    return sorted((letter["step"], letter["error"].split(" takes ")[0]) for letter in found)


def adjustments(running: BackgroundRun, part: str) -> set[int]:
    """How the processes with *part* rank among those that the kernel may kill."""
    return {int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in processes(running, part)}


def test_what_the_kernel_kills_is_replaced_or_named_and_nothing_is_lost(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Receiver("lines") as receiver:
        with run(MISBEHAVING, receiver, state) as running, memory_group() as group:
            send(running.sources[SOURCE], [b"a", b"b", b"c"])
            receiver.wait_for(3)
            # a container is killed in this order, by size among those with the same number
            assert max(adjustments(running, WORKERS)) == 1000
            assert adjustments(running, "bin/java") != {1000}

            use_up_memory_of(processes(running, " wallaroo gateway "))
            running.wait_for_event("gateway restarted", PATIENCE_S)
            send(running.sources[SOURCE], [b"a"])
            receiver.wait_for(4)

            group.limit(192 * _MIB)
            for pid in processes(running, WORKERS):
                group.add(pid)
            send(
                running.sources[SOURCE], [b"a", b"b grow", b"grow in the decoder", b"c grow", b"b"]
            )
            receiver.wait_for(6)
            assert group.kills
            grown = "MemoryError: the call"
            assert letters(state) == [("add", grown), ("add", grown), ("decoder", grown)]

            send(running.sources[SOURCE], [b"a", b"b"])
            running.wait_until_accepted(SOURCE, 11)
            use_up_memory_of([running.process.pid])
            assert running.wait(PATIENCE_S) == -9

        with run(MISBEHAVING, receiver, state) as running:
            send(running.sources[SOURCE], [b"a"])
            made = [b"a %d\n" % count for count in range(1, 6)]
            made += [b"b %d\n" % count for count in range(1, 4)]
            wait_until(lambda: set(receiver.messages) == {*made, b"c 1\n"}, "all", PATIENCE_S)
            running.wait_until_processed()
            use_up_memory_of(processes(running, "bin/java"))
            running.process.terminate()  # while the run may not know yet
            assert running.wait(PATIENCE_S) == 0
    (reason,) = [e["reason"] for e in running.events if e["event"] == "query restarts"]
    assert reason.startswith("Spark's Java was killed by SIGKILL: the system does this when")
    assert not processes_below(running.process.pid)
