"""The page of the benchmarks: the last kept run, in tables and plots."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.loads import BENCHMARKS
from benchmarks.peers.measured import environment

_DOCS = BENCHMARKS.parent / "docs"
_HEAD = """# Benchmarks

Written by `make bench ARGS=--keep` from its last run: {machine}, version {version}, {at}, load
average {load:.1f} at the end. Journal, checkpoint and exactly-once are on. Ours, bare Python and
Bytewax (its recovery on, a snapshot each second) call the same functions of the same applications
on the same data, in turns; results are checked. Ours goes from TCP to TCP, with senders and
receiver on the same cores; the others read and write files. *Bare Python* is one process without
any framework; *by hand* has the functions written out in one loop, without decoding into objects.
Messages a second are the median of {passes} passes.

![Market Spread: messages a second](benchmark-market-spread.svg)

![Word Count: messages a second](benchmark-word-count.svg)

![Market Spread: messages a second by workers](benchmark-workers.svg)

![Latency by rate](benchmark-latency.svg)

![Messages a second by keys](benchmark-keys.svg)

![Megabytes a second by size of messages](benchmark-sizes.svg)

![Latency by size of idle state](benchmark-state.svg)

| what | value | from – to | detail |
|---|---|---|---|
"""


def write(history: Path) -> Path:
    """Write the page and its plots from the last run of *history*."""
    run: dict[str, Any] = json.loads(history.read_text().splitlines()[-1])
    rows = [_row(figure) for figure in run["figures"]]
    page = _DOCS / "benchmarks.md"
    page.write_text(_HEAD.format(**run, passes=run["settings"]["passes"]) + "".join(rows))
    plots = [str(environment()), "-m", "benchmarks.plots", str(history), str(_DOCS)]
    subprocess.run(plots, check=True, cwd=BENCHMARKS.parent)
    return page


def number(value: float) -> str:
    """A value with as many digits as say something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _row(figure: dict[str, Any]) -> str:
    between = ""
    if figure["lowest"] is not None:
        between = f"{number(figure['lowest'])} – {number(figure['highest'])}"
    unit = {"messages/s": "µs of processor time a message: ", "ms": "ms: ", "MB": "MB: "}
    detail = ", ".join(f"{name} {number(part)}" for name, part in figure["detail"].items())
    if detail:
        detail = unit.get(figure["unit"], "") + detail
    value = f"{number(figure['value'])} {figure['unit'].replace('ratio', '×')}"
    return f"| {figure['what']} | {value} | {between} | {detail} |\n"
