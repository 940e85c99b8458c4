"""Faults one after the other on one system, each judged before the next."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.chaos.catalogue import FAULTS
from tests.chaos.report import Report
from tests.chaos.system import PATIENCE_S, System

_SLOW_S = 30.0
"""Seconds after which a recovery is slow; see `tests/chaos/results.md`."""

_LAST_S = 10.0
"""Time for the receiver to read what the kernel has taken for it."""


class Wrong(AssertionError):
    """A message was lost, doubled, swapped or miscounted, or the system did not come back."""


def inject(
    system: System,
    name: str,
    chance: random.Random,
    report: Report,
    say: Callable[[str], None] = lambda _line: None,
) -> None:
    """Inject the fault *name*, let the system recover, and judge all outputs.

    Raises:
        Wrong: They are not those that were due.
    """
    row = report.row(system.turn, name)
    row.tried += 1
    system.ledger.longest_stop()
    begun = time.monotonic()
    injected = FAULTS[name](system, chance)
    ended = time.monotonic()
    if not system.ledger.wait_for_all(PATIENCE_S):  # perhaps lost, perhaps late: nobody knows
        row.injected += injected
        row.failed += 1
        told = "\n  ".join([*system.wrong, "the application's last events:", *system.events])
        msg = f"{name}: not all outputs came in {PATIENCE_S:.0f} s\n  {told}"
        raise Wrong(msg)
    recovered = time.monotonic()
    stop = system.ledger.longest_stop()
    verdict = system.ledger.judge()
    row.injected += injected
    row.add(verdict)
    row.stop_s = max(row.stop_s, stop)
    row.recover_s = max(row.recover_s, recovered - ended)
    say(
        f"{name}: {'injected' if injected else 'NOT injected'} in {ended - begun:.1f} s, "
        f"all out after {recovered - ended:.1f} s, longest stop {stop:.1f} s, "
        f"{verdict.messages:,} messages"
    )
    if recovered - ended > _SLOW_S:
        say("\n  ".join(["slow; the application's last events:", *system.events]))
    wrong = [*verdict.wrong, *system.wrong]
    if wrong:
        row.failed += 1
        told = "\n  ".join([*wrong[:20], "the application's last events:", *system.events])
        msg = f"{name}: {len(wrong)} wrong:\n  {told}"
        raise Wrong(msg)


def at_the_end(system: System) -> None:
    """Judge what came out while the application ended.

    Raises:
        Wrong: It is not what was due.
    """
    there = system.ledger.wait_for_all(_LAST_S)
    wrong = [*system.ledger.judge().wrong, *system.wrong]
    if wrong or not there:
        problems = wrong[:20] or ["not all outputs had come"]
        lines = "\n  ".join([*problems, "the application's last events:", *system.events])
        msg = f"at the end:\n  {lines}"
        raise Wrong(msg)
