"""`make chaos`: faults on a running application, for as long as it is told to."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.catalogue import FAULTS, FAULTS_OF, faults_of
from tests.chaos.report import Report, write
from tests.chaos.system import APPLICATIONS, System
from tests.chaos.trial import Wrong, inject
from tests.helpers import ROOT
from wallaroo.engine.registry import DEFAULT

_ERRORS = 30
"""How many kinds of errors in the log are shown."""


def main() -> int:
    """Inject each fault once, then faults at random until the time is over; print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=main.__doc__)
    parser.add_argument("--hours", type=float, default=0.25, help="time for it  [default: 0.25]")
    parser.add_argument("--seed", type=int, default=None, help="replays a run")
    parser.add_argument("--fault", action="append", choices=[*FAULTS], help="only this fault")
    parser.add_argument("--keys", type=int, default=0, help="keys that have state at the start")
    parser.add_argument("--engine", choices=[*FAULTS_OF], default=DEFAULT)
    parser.add_argument("--application", choices=[*APPLICATIONS], default="counting")
    parser.add_argument("--write", action="store_true", help="write docs/guarantees.md anew")
    chosen = parser.parse_args()
    seed = random.SystemRandom().getrandbits(32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    chance, report = random.Random(seed), Report()
    names = chosen.fault or [*faults_of(chosen.engine, chosen.application)]
    failed = False
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as directory,
        System(
            Path(directory), chosen.keys, engine=chosen.engine, application=chosen.application
        ) as run,
    ):
        time.sleep(2.0)
        begun = time.monotonic()
        todo = list(names)
        chance.shuffle(todo)
        try:
            while time.monotonic() - begun < chosen.hours * 3600:
                if not todo:
                    todo = chance.choices(names, k=len(names))
                inject(run, todo.pop(), chance, report, lambda line: print(line, flush=True))
                time.sleep(chance.uniform(0.0, 3.0))
            if (code := run.finish()) != 0:
                print(f"the application ended with exit code {code}")
                failed = True
        except Wrong as error:
            print(error)
            failed = True
        hours = (time.monotonic() - begun) / 3600
        report.rows = {name: report.rows[name] for name in names if name in report.rows}
        heading = (
            f"Seed {seed}, engine {chosen.engine}, application {chosen.application}, "
            f"{hours:.2f} hours, {chosen.keys:,} keys with state, "
            f"{run.ledger.received:,} outputs, {run.receiver.repeated:,} dropped by their numbers, "
            f"{run.driver_starts} starts, {run.commits:,} commits of state; "
            f"{os.cpu_count()} cores, "
            f"load average {os.getloadavg()[2]:.0f} over the last 15 min:"
        )
        for logged, count in run.errors.most_common(_ERRORS):
            print(f"{count:6} times logged: {logged}")
    print(table := report.table(heading))
    if chosen.write:
        write(table, ROOT / "docs" / "guarantees.md", chosen.engine)
    return int(failed)


sys.exit(main())
