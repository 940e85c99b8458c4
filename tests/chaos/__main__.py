"""`make chaos`: faults on running applications, for as long as it is told to."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.chaos import history
from tests.chaos.catalogue import FAULTS, faults_of, lacking
from tests.chaos.report import PARTS, Report, Spell, write
from tests.chaos.system import RATE, System
from tests.chaos.trial import Wrong, at_the_end, inject
from tests.chaos.turn import (
    APPLICATIONS,
    FILES_WITH_TOPICS,
    SHAPES,
    WITH_TOPICS,
    Turn,
)
from tests.gateway.simulation.seeds import LEAST, campaign
from tests.helpers import ROOT

_FOLDER = Path(__file__).parent
SIMULATIONS_PER_HOUR = 150_000
"""Seeds of the simulated gateway for each hour of trials: a core takes some 150 a second."""
_ERRORS = 30
"""How many kinds of errors in the log are shown."""


def main() -> int:
    """Inject faults into applications in turn, those first that were injected least often."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=main.__doc__)
    parser.add_argument("--hours", type=float, default=0.25, help="for all turns  [default: 0.25]")
    parser.add_argument(
        "--seeds", type=int, help="only so many simulations of the gateway, from --seed on"
    )
    parser.add_argument("--seed", type=int, default=None, help="replays a run")
    parser.add_argument(
        "--fault", action="append", choices=[*FAULTS], metavar="NAME", help="only this fault"
    )
    parser.add_argument("--keys", type=int, default=0, help="keys that have state at the start")
    parser.add_argument("--rate", type=int, default=RATE, help="messages a second of each sender")
    applications = [*dict.fromkeys([*APPLICATIONS, *FILES_WITH_TOPICS])]
    parser.add_argument("--application", action="append", choices=applications)
    parser.add_argument("--shape", action="append", choices=SHAPES)
    parser.add_argument(
        "--confirm", action="store_true", help="let Porcupine check the histories; requires Go"
    )
    parser.add_argument("--results", type=Path, help="add to the results in this file")
    parser.add_argument(
        "--write", action="store_true", help="add to tests/chaos/results.json and results.md"
    )
    chosen = parser.parse_args()
    if chosen.write and chosen.results is None:
        chosen.results = _FOLDER / "results.json"
    turns = [
        turn
        for parts in itertools.product(chosen.application or applications, chosen.shape or SHAPES)
        if names_of(turn := Turn(*parts), chosen.fault)
    ]
    is_partial = bool(chosen.application or chosen.shape or chosen.fault)
    for is_refused, why in (
        (
            chosen.keys and any(turn.shape != SHAPES[0] for turn in turns),
            f"--keys requires --shape {SHAPES[0]}",
        ),
        (
            chosen.confirm and not history.is_there(),
            "--confirm requires Go 1.21, which builds the checker",
        ),
        (
            chosen.seeds and is_partial,
            "--seeds runs only simulations, without --application, --shape and --fault",
        ),
        (not turns, "none of these faults fits any of these turns"),
    ):
        if is_refused:
            parser.error(why)
    seed = random.SystemRandom().getrandbits(32) if chosen.seed is None else chosen.seed
    report = Report() if chosen.results is None else Report.read(chosen.results)

    def keep() -> None:
        if chosen.results is not None:
            report.write(chosen.results)

    failed, tested = False, commit()
    print(f"commit {tested}", flush=True)
    if not is_partial:
        seeds = chosen.seeds or max(LEAST, int(SIMULATIONS_PER_HOUR * chosen.hours))
        if not campaign(seed, seeds, os.cpu_count() or 1, say):
            return 1
    if chosen.seeds:
        return 0
    for number, turn in enumerate(turns):
        spell = Spell(seed + number, chosen.keys, chosen.rate, commit=tested)
        report.spells.setdefault(turn, []).append(spell)
        names = names_of(turn, chosen.fault)
        hours = chosen.hours / len(turns)
        failed = not take(turn, names, hours, spell, report, keep, confirms=chosen.confirm)
        if failed:
            break
    for part, shapes in PARTS.items():
        if tables := report.tables([*FAULTS], os.cpu_count() or 1, shapes):
            print(tables)
            if chosen.write and not failed:
                write(tables, _FOLDER / "results.md", f"real-time{part}")
    return int(failed)


def commit() -> str:
    """The commit that is tested; with a mark if it was changed."""
    asked = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def names_of(turn: Turn, wanted: list[str] | None) -> list[str]:
    """The faults of *turn* that are *wanted*; None for all."""
    return [name for name in faults_of(turn) if wanted is None or name in wanted]


def take(
    turn: Turn,
    names: list[str],
    hours: float,
    spell: Spell,
    report: Report,
    keep: Callable[[], None],
    *,
    confirms: bool = False,
) -> bool:
    """Inject the faults *names* in *turn*, and note it in *spell* and *report*.

    Args:
        turn: What runs.
        names: The faults.
        hours: How long.
        spell: The time for this turn; changed.
        report: All of the run; changed.
        keep: Keeps the report.
        confirms: Whether Porcupine is to check the history.

    Returns:
        Whether all outputs were right.
    """
    print(f"{turn}: seed {spell.seed}", flush=True)
    for name, lack in lacking(turn).items():
        print(f"{name}: left out, because this machine lacks {lack}")
    chance, right, before = random.Random(spell.seed), True, report.judged(turn)
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as directory,
        system_of(turn)(Path(directory), turn, keys=spell.keys, rate=spell.rate) as run,
    ):
        kept = Path(directory, "history")
        if confirms:
            run.ledger.history = kept.open("w")
        time.sleep(2.0)
        begun = time.monotonic()

        def note() -> None:
            spell.hours = (time.monotonic() - begun) / 3600
            faults, messages = report.judged(turn)
            spell.faults, spell.messages = faults - before[0], messages - before[1]
            spell.outputs, spell.repeated = run.ledger.received, run.receiver.repeated
            spell.starts, spell.commits = run.starts, run.commits
            spell.load = max(spell.load, os.getloadavg()[2])
            keep()

        try:
            while time.monotonic() - begun < hours * 3600:
                inject(run, next_of(names, turn, report, chance), chance, report, say)
                note()
                time.sleep(chance.uniform(0.0, 3.0))
            if (code := run.finish()) != 0:
                print(f"the application ended with exit code {code}")
                right = False
            at_the_end(run)
        except Wrong as error:
            print(error)
            right = False
            print(f"what it has left on disk is in {copied(Path(directory))}", flush=True)
        if run.ledger.history is not None:
            run.ledger.history.close()
            confirmed, told = history.confirm(kept)
            print(f"Porcupine: {told}")
            right = right and confirmed
            spell.confirmed = run.ledger.received if confirmed else 0
        note()
        for logged, count in run.errors.most_common(_ERRORS):
            print(f"{count:6} times logged: {logged}")
        if never := [name for name in names if not report.row(turn, name).injected]:
            print(f"{len(never)} never injected: {', '.join(never)}")
    return right


def copied(directory: Path) -> Path:
    """A copy of the files in *directory*, whose run may go on, to find out what was wrong."""

    def others(folder: str, names: list[str]) -> list[str]:
        """What is neither a file nor a directory, such as sockets."""
        paths = [Path(folder, name) for name in names]
        return [path.name for path in paths if not (path.is_file() or path.is_dir())]

    copy = Path(tempfile.mkdtemp(prefix="chaos-failed-"))
    with contextlib.suppress(shutil.Error):  # some files go meanwhile
        shutil.copytree(directory, copy, ignore=others, dirs_exist_ok=True)
    return copy


def next_of(names: list[str], turn: Turn, report: Report, chance: random.Random) -> str:
    """The fault that was tried least often in *turn*, then in all turns; else at random."""
    here, anywhere = report.tried(lambda other: other == turn), report.tried(lambda _: True)
    least = min((here[name], anywhere[name]) for name in names)
    return chance.choice([name for name in names if (here[name], anywhere[name]) == least])


def system_of(turn: Turn) -> type[System]:
    """What runs *turn*."""
    if turn.shape not in WITH_TOPICS:
        return System
    from tests.chaos.kafka_system import KafkaSystem

    return KafkaSystem


def say(line: str) -> None:
    """Print *line* at once."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
