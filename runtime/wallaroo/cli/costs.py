"""The option `--baseline`: processor time of new code beside that of the old, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import ceil

import click

from wallaroo.cli.options import application_without_addresses
from wallaroo.cli.tables import table
from wallaroo.engine.stored import Committed
from wallaroo.gateway.log.records import Record
from wallaroo.history.baseline import Baseline, Turn, baseline_of
from wallaroo.history.rehearsal import Rehearsal
from wallaroo.history.step_times import Step
from wallaroo.model.application import Application
from wallaroo.system.printable import counted

BASELINE = click.option(
    "--baseline",
    "old",
    metavar="OLD_APP",
    help="Also run the messages through the code that has run so far, in turns with APP, and show "
    "the processor time that the functions of each step take in both. Spark, network and saving "
    "are not in it; side effects happen twice.",
)

_HEAD = ("OLD p50", "p99", "mean", "NEW p50", "p99", "mean", "RATIO")
"""The ratio is that of the medians, as a mean is changed by any call that the machine delays."""


def baseline_of_command(
    app: str | None, app_args: tuple[str, ...], limit_s: float
) -> AbstractContextManager[Baseline | None]:
    """`baseline_of` of the code *app*, as the option names it; None if it does not.

    Args:
        app: The application.
        app_args: Its arguments.
        limit_s: Seconds that a function may take for a message; 0 for no limit.
    """
    if app is None:
        return nullcontext()
    return baseline_of(partial(application_without_addresses, app, app_args), limit_s)


def rehearsal_beside(
    baseline: Baseline | None,
    application: Application,
    records: Iterator[Record],
    beginning: Committed | None,
) -> Rehearsal:
    """A rehearsal of *application*, beside which old code runs unless that is None."""
    if baseline is None:
        return Rehearsal(application, records, beginning)
    records = baseline.beside(application, records, beginning)
    return Rehearsal(application, records, beginning, baseline.times)


def cost_lines(baseline: Baseline | None, rehearsal: Rehearsal) -> Iterator[str]:
    """What both take, by step, and what the old code has not run; nothing if there is none."""
    if baseline is None:
        return
    turns = baseline.turns
    if baseline.problem is not None:
        yield f"the old code ended early: {baseline.problem}"
    if (more := baseline.dead_letters - rehearsal.dead_letters) > 0:
        made = counted(more, "dead letter")
        yield f"the old code makes {made} more, for which later steps take no time"
    for source, count in baseline.unread.items():
        messages = counted(count, "message")
        yield f"the old code has not run {messages}: it lacks the source {source!r}"
    if not turns:
        return
    messages = counted(sum(turn.messages for turn in turns), "message")
    over = f"{messages} in {counted(len(turns), 'turn')}"
    yield f"processor time of functions in µs a message, {over}:"
    steps = dict.fromkeys(
        step for side in ("new", "old") for turn in turns for step in getattr(turn, side)
    )
    has_several = len({pipeline for pipeline, _ in steps}) > 1
    rows = [[" · ".join(step[not has_several :]), *_cells(turns, [step])] for step in steps]
    rows.append(["total", *_cells(turns, [*steps])])
    for line in table(["STEP", *_HEAD], rows):
        yield f"  {line}"


def _cells(turns: Sequence[Turn], steps: Sequence[Step]) -> list[str]:
    """What *steps* take in old and new code, as `_HEAD` says; the percentiles are over *turns*."""
    cells, medians = list[str](), list[float]()
    messages = sum(turn.messages for turn in turns)
    for sides in ([turn.old for turn in turns], [turn.new for turn in turns]):
        if not any(step in side for side in sides for step in steps):
            cells += ["-"] * 3
            continue
        spent = [sum(side[step] for step in steps) for side in sides]
        ordered = sorted(ns / turn.messages for ns, turn in zip(spent, turns, strict=True))
        median, most = (ordered[ceil(part * len(ordered)) - 1] for part in (0.50, 0.99))
        cells += [f"{ns / 1_000:,.2f}" for ns in (median, most, sum(spent) / messages)]
        medians.append(median)
    old, *new = medians
    return [*cells, f"{new[0] / old:.2f}" if new and old else "-"]
