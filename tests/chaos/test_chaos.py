"""A short set of faults on a running application: `make chaos` injects all of them, for long."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from tests.chaos import history, kafka_faults
from tests.chaos.catalogue import FAULTS, GROUPS, faults_of, lacking
from tests.chaos.kafka_system import KafkaSystem
from tests.chaos.ledger import Ledger, Verdict
from tests.chaos.report import PARTS, Report, Spell, write
from tests.chaos.sockets import connections, cut, is_connected
from tests.chaos.system import System
from tests.chaos.trial import at_the_end, inject
from tests.chaos.turn import (
    APPLICATIONS,
    SHAPES,
    TOPIC_SINKS,
    WITH_LEVELS,
    WITH_TOPICS,
    WITHOUT_TOPICS,
    WORD_COUNT,
    Turn,
)
from tests.helpers import ROOT
from tests.kafka.broker import Cluster

WITH_SS = pytest.mark.skipif(
    shutil.which("ss") is None, reason="ss (package iproute2) is not installed"
)
RATE = 100
"""Messages a second of each sender: most of what they cost comes from how many there are."""
SHORT = [
    "kill at log-before-write",
    "kill at outbox-after-publish",
    "kill at sink-in-mid-delivery",
    "torn last write of the log",
    "clock stepped backwards",
    "flood ten times faster than the engine",
    "kill everything at once",
]

SHORT_AT_SEAMS = [
    "kill the gateway",
    "kill at chunks-before-publish",
    "kill at partition-in-direct",
    "kill at partition-in-save",
    "kill at chunks-before-forget",
    "kill at partition-in-apply",
    "kill Spark's Java while an epoch is committed",
    "cut the connection of a partition and Java",
    "message that kills its worker",
    "kill everything at once",
]

SHORT_APART = [
    "network cuts connections in mid-frame five times",
    "clock of the gateway a day ahead, and back",
]


@pytest.mark.parametrize("option", ["--application=counting", "--fault=kill the gateway"])
def test_simulations_alone_are_of_no_application_or_fault(option: str) -> None:
    command = [sys.executable, "-m", "tests.chaos", "--seeds", "1", option]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--seeds runs only simulations, without --application" in done.stderr


@WITH_SS
@pytest.mark.spark
@pytest.mark.parametrize(
    ("turn", "faults"),
    [
        (Turn(), SHORT),
        (Turn(), SHORT_AT_SEAMS),
        (Turn("windows", "apart"), SHORT_APART),
    ],
    ids=["common", "at seams", "apart"],
)
def test_nothing_is_lost_doubled_or_swapped(turn: Turn, faults: list[str]) -> None:
    if missing := [lack for name, lack in lacking(turn).items() if name in faults]:
        pytest.skip(f"this machine lacks {missing[0]}")
    with (
        tempfile.TemporaryDirectory() as directory,
        System(Path(directory), turn, rate=RATE, flood_s=3.0) as system,
    ):
        chance, report = random.Random(1), Report()
        for name in faults:
            inject(system, name, chance, report)
        assert system.finish() == 0
        at_the_end(system)
    rows = report.rows[turn]
    assert {name: row.injected for name, row in rows.items()} == dict.fromkeys(faults, 1)
    assert sum(row.messages for row in rows.values()) > 1000


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


@pytest.mark.skipif(not history.is_there(), reason="Go 1.21 is not installed")
def test_porcupine_confirms_a_history_or_names_the_key(tmp_path: Path) -> None:
    kept = tmp_path / "history"
    ledger = Ledger(lambda key: {"old": 7}.get(key, 0))
    with kept.open("w") as ledger.history:
        for key in ("k", "old", "k"):
            ledger.next(key)
        ledger.note([b"old 8 8", b"k 1 1", b"k 2 2"])
    assert history.confirm(kept) == (True, "3 operations, 0 keys wrong")
    with kept.open("a") as ledger.history:
        ledger.next("k")
        ledger.note([b"k 3 3", b"k 2 3"])
    confirmed, told = history.confirm(kept)
    assert not confirmed
    assert told.startswith("key k: no order of its messages explains the outputs")


@WITH_SS
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
    assert all(FAULTS[name] is fault for group in GROUPS for name, fault in group.faults.items())
    assert {*SHORT, *SHORT_AT_SEAMS} <= set(faults_of(Turn()))


def test_a_fault_is_for_the_turns_that_it_fits() -> None:
    turns = [Turn(*parts) for parts in itertools.product(APPLICATIONS, SHAPES)]
    known = {turn: faults_of(turn).keys() | lacking(turn).keys() for turn in turns}
    found = {name: [turn for turn in turns if name in known[turn]] for name in FAULTS}
    assert all(found.values())
    assert found["kill the gateway"] == [
        turn for turn in turns if turn.application == "counting" or turn.shape in WITHOUT_TOPICS
    ]
    assert {turn.shape for turn in found["kill all brokers"]} == WITH_TOPICS
    assert {turn.shape for turn in found["kill at kafka-sink-after-flush"]} == TOPIC_SINKS
    assert {turn.application for turn in found["kill at reader-before-level"]} == WITH_LEVELS
    assert {turn.shape for turn in found["cut a connection to the gateway"]} == {"together"}


def test_results_of_several_runs_add_up(tmp_path: Path) -> None:
    file = tmp_path / "results"
    for number, turn in enumerate([Turn(), Turn(), Turn(application="windows")]):
        report = Report.read(file)
        row = report.row(turn, "kill a worker")
        report.row(turn, "kill the gateway")  # never tried, and not in the table
        row.tried += 1
        row.injected += 1
        row.failed += number == 2
        row.add(Verdict(100, lost=["message 1 of key k"] * number))
        row.stop_s = max(row.stop_s, 1.5 + number)
        spell = Spell(number, 0, 400, 0.25, 100, 0, 2, 5, 1.0, 1, 100, 90, f"c{number // 2}")
        report.spells.setdefault(turn, []).append(spell)
        report.write(file)
    tables = Report.read(file).tables(["kill a worker", "kill the gateway"], 2)
    assert "kill the gateway" not in tables
    _head, later, earlier = [line for line in tables.splitlines() if line.startswith("| c")]
    assert later == "| c1 | windows | together | 0.25 | 1 | 100 | 90 | 0 | 2 | 5 | 0 | 1 | 2 |"
    assert earlier == (
        "| c0 | counting | together | 0.50 | 2 | 200 | 180 | 0 | 4 | 10 | 0 | 1 | 0, 1 |"
    )
    assert "| kill a worker | 3 | 300 | 3 | 0 | 0 | 0 | 1 | 3.5 s | 0.0 s |" in tables


def test_runs_with_topics_leave_the_other_tables_as_they_are(tmp_path: Path) -> None:
    page, report = tmp_path / "page.md", Report()
    marks = "<!-- chaos on {0}: begin -->\n{0}\n<!-- chaos on {0}: end -->\n"
    names = ["real-time", "real-time with topics"]
    page.write_text("".join(map(marks.format, names)))
    turn = Turn(WORD_COUNT, "tcp-to-kafka")
    report.spells[turn] = [Spell(1, 0, 400)]
    for part, shapes in PARTS.items():
        if tables := report.tables([], 2, shapes):
            write(tables, page, f"real-time{part}")
    text = page.read_text()
    assert "\nreal-time\n" in text
    assert "\nreal-time with topics\n" not in text
    assert "| word-count | tcp-to-kafka |" in text


@pytest.mark.parametrize("name", ["kill the broker that coordinates", "move the leaders"])
def test_brokers_without_transactions_are_ended(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a run whose sink is a port."""
    monkeypatch.setattr(kafka_faults, "AWAY_S", 0.0)
    known = {
        topic: SimpleNamespace(partitions={0: SimpleNamespace(leader=2)})
        for topic in ("read", "__consumer_offsets")
    }

    def list_topics(topic: str | None = None, *, timeout: float) -> SimpleNamespace:
        assert timeout > 0.0
        absent = SimpleNamespace(partitions={})
        return SimpleNamespace(topics=known if topic is None else {topic: known.get(topic, absent)})

    with mock.patch.object(Cluster, "__init__", return_value=None):
        cluster = Cluster(Path())
    node = mock.Mock()
    cluster.nodes = {2: node}
    elected = {"read": None, "__consumer_offsets": None}
    cluster.admin = mock.Mock(list_topics=list_topics)
    cluster.admin.elect_leaders.return_value.result.return_value = elected
    system = mock.create_autospec(KafkaSystem, instance=True, topics=["read"], brokers=cluster)
    with mock.patch.object(Cluster, "start"):
        for seed in range(10):
            assert FAULTS[name](system, random.Random(seed))
    assert node.stop.call_count == 10
    assert cluster.leader("__transaction_state") == -1
