"""The benchmark of `make bench`: ours and the peers, alternately, in one run."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import tempfile
import time
from pathlib import Path

import click

import wallaroo
from benchmarks import page
from benchmarks.figures import Figure, Settings
from benchmarks.groups import GROUPS

_HISTORY = Path(__file__).with_name("history.jsonl")
_SMALL = Settings(
    200_000,
    20_000,
    200_000,
    1,
    2,
    5.0,
    100_000,
    200_000,
    20_000_000,
    10.0,
    10.0,
    (1_000, 10_000),
    20_000,
    100_000,
    200_000,
    200_000,
    2_000,
)


@click.command()
@click.argument("groups", nargs=-1, type=click.Choice(list(GROUPS)))
@click.option("--small", is_flag=True, help="Little data, one pass: to see that it works.")
@click.option("--passes", type=int, help="Measured passes, after one that warms up.")
@click.option("--workers", type=int, help="Worker processes.")
@click.option(
    "--keep",
    is_flag=True,
    help="Add the figures to benchmarks/history.jsonl, and write benchmarks/README.md.",
)
def main(
    groups: tuple[str, ...], small: bool, passes: int | None, workers: int | None, keep: bool
) -> None:
    """Measure GROUPS (all, if none is named): journal, checkpoint and exactly-once on."""
    settings = _SMALL if small else Settings()
    settings = dataclasses.replace(
        settings, passes=passes or settings.passes, workers=workers or settings.workers
    )
    for name in groups or GROUPS:
        click.echo(f"{name} …", err=True)
        figures: list[Figure] = []
        with tempfile.TemporaryDirectory(prefix="wallaroo-bench-") as directory:
            for figure in GROUPS[name](settings, Path(directory)):
                figures.append(figure)
                click.echo(shown(figure))
        if keep:
            _keep(name, figures, settings)
    if keep:
        click.echo(f"wrote {page.write(_HISTORY)}")


def _keep(group: str, figures: list[Figure], settings: Settings) -> None:
    """Add the figures of *group* to the history."""
    kept = {
        "group": group,
        "version": wallaroo.__version__,
        "at": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "load": os.getloadavg()[0],
        "settings": dataclasses.asdict(settings),
        "figures": [dataclasses.asdict(figure) for figure in figures],
    }
    with _HISTORY.open("a") as history:
        history.write(json.dumps(kept) + "\n")


def shown(figure: Figure) -> str:
    """A figure as a line of text."""
    text = f"{figure.what}: {page.number(figure.value)} {figure.unit}"
    if figure.lowest is not None and figure.highest is not None:
        text += f" (from {page.number(figure.lowest)} to {page.number(figure.highest)})"
    if figure.detail:
        text += "; " + ", ".join(f"{name} {part:,.2f}" for name, part in figure.detail.items())
    return text


if __name__ == "__main__":
    main()
