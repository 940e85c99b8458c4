"""Applications in the style of each of Wallaroo's versions run unmodified.

They are written for these tests, from what Wallaroo documented: see `docs/migrating.md`.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from tests.helpers import wait_until
from tests.spark.harness import PATIENCE_S, Receiver, send
from tests.spark.in_process import InProcess
from wallaroo.cli.main import main
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run.background_run import BackgroundRun
from wallaroo.testing import load, messages_of, simulate

FOLDER = Path(__file__).parent
PLAIN = ("--in", "127.0.0.1:0,127.0.0.1:0", "--out", "127.0.0.1:1,127.0.0.1:2")
NAMED = ("--in", "Exits@127.0.0.1:0,Entries@127.0.0.1:0", "--out", "127.0.0.1:1")
SECOND = 1_000_000_000


class Case(NamedTuple):
    """What goes into an application, and what has to come out of it."""

    app: str
    args: tuple[str, ...]
    sent: list[tuple[Any, ...]]
    outputs: list[bytes]
    unlisted: int = 0
    until_ns: int | None = None


def passed(age: int, people: int) -> tuple[str, bytes]:
    return "Turnstiles", struct.pack(">BI", age, people)


def moist(plant: int, moisture: float) -> tuple[str, bytes]:
    return "Moisture", struct.pack(">Bf", plant, moisture)


def heard(*noises: tuple[float, bytes]) -> list[tuple[Any, ...]]:
    return [("Microphones", noise, int(at * SECOND)) for at, noise in noises]


def entered(*doors: tuple[str, bytes, float]) -> list[tuple[Any, ...]]:
    return [(source, door, int(at * SECOND)) for source, door, at in doors]


NOISES = heard((1, b"hall 3"), (2, b"attic 4"), (9, b"hall 7"), (12, b"hall 5"), (23, b"hall 6"))
DOORS = entered(("Entries", b"front:3", 1), ("Exits", b"front:1", 2), ("Entries", b"back:5", 3))
POSTS = [("Posts", post) for post in (b"a #red one", b"", b"#green #blue", b"#red #green #red")]
TAGS = [b"red 1\n", b"green 1\n", b"blue 1\n", b"red 2\n", b"green 2\n", b"red 3\n"]

CASES = [
    Case(
        "v01_tally",
        PLAIN,
        [passed(30, 4), passed(7, 90), passed(18, 1)],
        [struct.pack(">I", 8), struct.pack(">I", 10)],
    ),
    Case(
        "v02_warehouse",
        PLAIN,
        [
            *[("Stock", b"A 2"), ("Orders", b"A 3"), ("Orders", b"Z 1"), ("Stock", b"Z 5")],
            *[("Orders", b"A 0"), ("Stock", b"A 1"), ("Orders", b"A 1")],
        ],
        [b"A 1\n", b"A 0\n", b"A empty\n", b"order A\n", b"A 0\n"],
        unlisted=2,
    ),
    Case(
        "v03_depots",
        PLAIN,
        [("Trams", b"\1a"), ("Trams", b"\2b"), ("Trams", b"\1c"), ("Trams", b"\7d")],
        [b"1: a;", b"2: b;", b"1: a,c;"],
        unlisted=1,
    ),
    Case(
        "v04_greenhouse",
        PLAIN,
        [moist(0, 0.25), moist(1, 0.5), moist(0, 0.125), moist(9, 0.0), moist(0, 0.25)],
        [b"plant 0: 18\n", b"left: 82\n", b"plant 0: 5\n", b"left: 77\n"],
        unlisted=1,
    ),
    *(
        Case("v05_tags", (*PLAIN, how), POSTS, [out for tag in TAGS for out in (tag, tag)])
        for how in ("absent", "empty", "listed")
    ),
    Case(
        "v05_connectors",
        (),
        [("Prices", b'{"item": "tea", "net": 2.5}')],
        [b"\0\0\0\x08tea 3.00"],
    ),
    Case(
        "v06_lifts",
        PLAIN,
        [
            *[("North", b"a 0 3"), ("South", b"b 1 9"), ("North", b"a 3 1"), ("South", b"a 0 6")],
            ("North", b"b 0 1"),
        ],
        [b"a\n", b"3\n", b"b\n", b"8\n", b"a\n", b"9\n"],
    ),
    Case("v06_windows", (*PLAIN, "tumbling"), NOISES, [b"hall 7\n", b"attic 4\n", b"hall 5\n"]),
    Case(
        "v06_windows",
        (*PLAIN, "sliding"),
        NOISES,
        [b"hall 3\n", b"attic 4\n", b"hall 7\n", b"attic 4\n", b"hall 7\n", b"hall 5\n"],
    ),
    Case("v06_windows", (*PLAIN, "count"), NOISES, [b"hall 15\n"]),
    *(
        Case("v07_doors", (*NAMED, *options), DOORS, [b"front +2\n", b"back +5\n"], 0, 60 * SECOND)
        for options in ((), ("--late", "place-in-oldest-window"), ("--connector",))
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.app} {' '.join(case.args[4:])}")
def test_applications_of_each_version_run_unmodified(case: Case) -> None:
    result = simulate(load(FOLDER / f"{case.app}.py", case.args), case.sent, until_ns=case.until_ns)
    assert result.set_aside == []
    assert result.outputs == case.outputs
    assert len(result.unknown_keys) == case.unlisted


def test_a_generator_of_0_5_4_runs_unmodified() -> None:
    application = load(FOLDER / "v05_generator.py", PLAIN)
    sent = itertools.islice(messages_of(application, "Numbers"), 1000)
    assert simulate(application, sent).outputs == [b"%d\n" % (n * n) for n in range(1, 41)]


@pytest.mark.parametrize("app", sorted({case.app for case in CASES} | {"v05_generator"}))
def test_applications_of_each_version_are_well_formed(app: str) -> None:
    args = NAMED if app == "v07_doors" else PLAIN
    result = CliRunner().invoke(main, ["check", str(FOLDER / f"{app}.py"), "--", *args])
    assert "is well formed" in result.output
    assert result.exit_code == 0


def by_first_word(outputs: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    grouped = defaultdict(list)
    for output in outputs:
        grouped[output.split()[0]].append(output)
    return grouped


@contextlib.contextmanager
def started(
    app: str,
    inputs: str,
    state: Path,
    sent: Sequence[tuple[Any, ...]],
    args: Sequence[str] = (),
    header: int = 4,
) -> Iterator[tuple[BackgroundRun, Receiver]]:
    """*app*, started as upstream was and sent *sent*, and what receives its outputs."""
    with Receiver("lines") as receiver:
        command = ["run", "--application-module", f"tests.upstream.{app}", "-i", inputs]
        command += ["-o", receiver.address, "--workers", "2", "--state-dir", str(state)]
        with BackgroundRun([*command, "--ui", "127.0.0.1:0", *args]) as running:
            for source, payloads in itertools.groupby(sent, key=lambda message: message[0]):
                send(running.sources[source], [message[1] for message in payloads], header)
            yield running, receiver


@pytest.mark.spark
@pytest.mark.parametrize("app", ["v02_warehouse", "v05_tags", "v06_lifts"])
def test_applications_of_each_generation_run_on_spark(app: str, on_spark: InProcess) -> None:
    case = next(case for case in CASES if case.app == app)
    # one source after the other: between sources, the order is that of arrival
    sent = sorted(case.sent * 20, key=lambda message: message[0], reverse=True)
    reference = ApplicationRef(str(FOLDER / f"{app}.py"), case.args)
    due = simulate(reference.load(), sent)
    made = on_spark.run(reference, sent)
    for sink, outputs in due.by_sink.items():
        assert by_first_word(made.by_sink[sink]) == by_first_word(outputs)


def totals(outputs: Iterable[bytes]) -> Counter[bytes]:
    counted: Counter[bytes] = Counter()
    for output in outputs:
        door, people = output.split()
        counted[door] += int(people)
    return counted


@pytest.mark.spark
def test_sources_are_found_by_the_names_of_their_addresses_on_spark(tmp_path: Path) -> None:
    sent = [(source, payload) for source, payload, _ in DOORS] * 10
    options = ["--", "--seconds", "1"]
    with started("v07_doors", NAMED[1], tmp_path / "state", sent, options) as (_, receiver):
        due = Counter({b"front": 20, b"back": 50})
        wait_until(lambda: totals(receiver.messages) == due, "all windows to close")


@pytest.mark.spark
def test_a_source_of_unlisted_keys_is_warned_of_on_spark(tmp_path: Path) -> None:
    sent = [("Trams", b"\1a"), *[("Trams", b"\7d")] * 30]
    with started("v03_depots", "127.0.0.1:0", tmp_path / "state", sent, header=1) as (running, _):
        told = running.wait_for_event("most messages dropped", PATIENCE_S)
        dropped = running.wait_for_event("unknown key dropped", PATIENCE_S)
    assert (told["source"], told["state"], told["listed"]) == (
        "Trams",
        "depots",
        "0, 1, 2 (3 keys)",
    )
    assert 20 <= told["dropped"] <= 30
    assert told["processed"] <= 1
    assert 'other_keys="add"' in told["advice"]
    assert (dropped["key"], dropped["listed"]) == ("7", "0, 1, 2 (3 keys)")
