"""A short set of faults on a running application: `make chaos` injects all of them, for long."""

from __future__ import annotations

import os
import random
import socket
import tempfile
from pathlib import Path

import pytest

from tests.chaos.catalogue import FAULTS_OF
from tests.chaos.ledger import Ledger
from tests.chaos.report import Report
from tests.chaos.sockets import connections, cut, is_connected
from tests.chaos.system import System
from tests.chaos.trial import inject

SHORT = [
    "kill at journal-before-commit",
    "kill at worker-before-stage",
    "kill at outbox-after-publish",
    "kill at sink-in-mid-delivery",
    "torn last write of the journal",
    "clock stepped backwards",
    "flood ten times faster than the engine",
    "kill everything at once",
]

SHORT_AT_SEAMS = [
    "kill the gateway",
    "kill at chunks-before-publish",
    "kill at partition-in-save",
    "kill at chunks-before-forget",
    "kill at partition-in-apply",
    "kill Spark's Java while an epoch is committed",
    "cut the connection of a partition and Java",
    "message that kills its worker",
    "kill everything at once",
]


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("engine", "faults"), [("micro-batch", SHORT), ("real-time", SHORT_AT_SEAMS)]
)
def test_nothing_is_lost_doubled_or_swapped(engine: str, faults: list[str]) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        System(Path(directory), flood_s=3.0, engine=engine) as system,
    ):
        chance, report = random.Random(1), Report()
        for name in faults:
            inject(system, name, chance, report)
        assert system.finish() == 0
    assert {name: row.injected for name, row in report.rows.items()} == dict.fromkeys(faults, 1)
    assert sum(row.messages for row in report.rows.values()) > 1000


def test_what_is_wrong_is_named() -> None:
    ledger = Ledger()
    for _ in range(5):
        ledger.next("k")
    assert not ledger.wait_for_all(0.0)
    ledger.note([b"k 1 1", b"k 3 2", b"k 2 3", b"k 3 4", b"k 5 4"])
    verdict = ledger.judge()
    assert verdict.messages == 5
    assert verdict.lost == ["message 4 of key k"]
    assert verdict.doubled == ["message 3 of key k"]
    assert verdict.swapped == ["message 2 of key k"]
    assert verdict.miscounted == [
        "message 3 of key k (as number 2)",
        "message 5 of key k (as number 4)",
    ]


def test_state_that_outputs_were_not_made_from_is_named() -> None:
    ledger = Ledger()
    for _ in range(3):
        ledger.next("k")
    ledger.note([b"k 1 1 k 1 0 17", b"k 2 2 k 2 17 18,k 3 3 k 3 99 19"])
    assert ledger.wait_for_all(0.0)
    assert ledger.judge().wrong == ["message 3 of entity k (from b'99' after (2, b'18')) was torn"]


def test_what_comes_late_again_is_doubled() -> None:
    ledger = Ledger()
    ledger.next("k")
    ledger.note([b"k 1 1"])
    assert ledger.wait_for_all(1.0)
    assert ledger.judge().wrong == []
    ledger.next("k")
    ledger.note([b"k 1 1", b"k 2 2"])
    assert ledger.wait_for_all(1.0)
    assert ledger.judge().wrong == ["message 1 of key k was doubled"]


def test_connections_of_another_process_are_found_and_cut(tmp_path: Path) -> None:
    name = r"\d+\.-1"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as connected:
        listener.bind(str(tmp_path / "7.-1"))
        listener.listen()
        assert not is_connected(os.getpid(), name)
        connected.connect(str(tmp_path / "7.-1"))
        accepted, _ = listener.accept()
        with accepted:
            assert is_connected(os.getpid(), name)
            assert not is_connected(os.getpid(), r"\d+\.\d+")
            assert connections(os.getpid(), name) == [accepted.fileno()]
            cut(os.getpid(), accepted.fileno())
            assert connected.recv(1) == b""


def test_faults_have_names_of_their_own() -> None:
    assert set(SHORT) <= set(FAULTS_OF["micro-batch"])
    assert set(SHORT_AT_SEAMS) <= set(FAULTS_OF["real-time"])
