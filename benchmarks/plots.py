"""The plots of the benchmarks' page; runs in the peers' environment, which has matplotlib.

python -m benchmarks.plots DIRECTORY < FIGURES
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

mpl.rcParams["svg.hashsalt"] = "wallaroo"  # the same plot is the same file

_OURS, _OTHERS = "#1f6f8b", "#b8b8b8"
_OURS_FROM = re.compile("^(TCP to TCP|journal to outbox)")


def bars(figures: list[dict[str, Any]], wanted: str, title: str, file: Path) -> None:
    """Messages a second of ours and of peers: the figures whose names *wanted* matches."""
    pattern = re.compile(wanted)
    rows = [f for f in figures if pattern.match(f["what"]) and f["unit"] == "messages/s"][::-1]
    names = [_OURS_FROM.sub(r"ours, \1", f["what"].partition(", ")[2]) for f in rows]
    figure, axes = plt.subplots(figsize=(7, 0.5 + 0.4 * len(rows)))
    colours = [_OURS if name.startswith("ours") else _OTHERS for name in names]
    drawn = axes.barh(names, [f["value"] for f in rows], color=colours)
    axes.bar_label(drawn, labels=[f"{f['value']:,.0f}" for f in rows], padding=4)
    axes.set_title(title, loc="left")
    axes.xaxis.set_visible(False)
    _finish(figure, axes, file)


def rates_by(
    figures: list[dict[str, Any]], wanted: str, unit: str, label: str, title: str, file: Path
) -> None:
    """What of ours is measured in *unit*, over the number that *wanted* finds in its name."""
    pattern = re.compile(wanted + ", TCP to TCP")
    found = [(pattern.match(f["what"]), f["value"]) for f in figures if f["unit"] == unit]
    points = sorted(
        (int(match[1].replace(",", "")), rate) for match, rate in found if match is not None
    )
    figure, axes = plt.subplots(figsize=(7, 2.6))
    axes.plot(*zip(*points, strict=True), "o-", color=_OURS)
    for at, rate in points:
        axes.annotate(f"{rate:,.0f}", (at, rate), (0, 6), textcoords="offset points", ha="center")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(0, 1.2 * max(rate for _, rate in points))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel(label)
    axes.set_title(title, loc="left")
    _finish(figure, axes, file)


def floors(figures: list[dict[str, Any]], file: Path) -> None:
    """Latencies at a low rate by idle state."""
    figure, axes = plt.subplots(figsize=(7, 3))
    _percentiles(figures, "200 messages/s beside (.*)$", axes)
    axes.set_title("milliseconds from socket to socket at 200 messages a second", loc="left")
    _finish(figure, axes, file)


def latencies(figures: list[dict[str, Any]], file: Path) -> None:
    """Latencies by rate, of independent arrivals."""
    figure, axes = plt.subplots(figsize=(7, 3.6))
    _percentiles(figures, "Market Spread at (.*) messages/s, independent$", axes)
    axes.set_xlabel("messages a second")
    axes.set_title("milliseconds from socket to socket", loc="left")
    _finish(figure, axes, file)


def _percentiles(figures: list[dict[str, Any]], wanted: str, axes: Any) -> None:
    """Draw p50 and p99 of the figures whose names *wanted* matches, by what it finds in them."""
    pattern = re.compile(wanted)
    rows = [(match[1], f) for f in figures if (match := pattern.match(f["what"]))]
    names = [name for name, _ in rows]
    p99 = [f["detail"]["p99"] for _, f in rows]
    axes.plot(names, p99, "o--", color=_OURS, label="p99")
    axes.plot(names, [f["value"] for _, f in rows], "o-", color=_OURS, label="p50")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(frameon=False)


def _finish(figure: Any, axes: Any, file: Path) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.15)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def main(groups: dict[str, list[dict[str, Any]]], directory: Path) -> None:
    """Draw the plots of the *groups* that were kept into *directory*."""
    if throughput := groups.get("throughput"):
        for app in ("Market Spread", "Word Count"):
            name = app.lower().replace(" ", "-")
            title = f"{app}: messages a second, 2 cores"
            file = directory / f"benchmark-{name}.svg"
            bars(throughput, f"{app}, (TCP|bare|Bytewax)", title, file)
    if engine := groups.get("engine"):
        figures = [*engine, *(throughput or [])]
        title = "Market Spread: messages a second by workers"
        bars(
            figures, "Market Spread, (journal|Bytewax)", title, directory / "benchmark-workers.svg"
        )
    if latency := groups.get("latency"):
        latencies(latency, directory / "benchmark-latency.svg")
    if floor := groups.get("floor"):
        floors(floor, directory / "benchmark-state.svg")
    if keys := groups.get("keys"):
        rates_by(
            keys,
            "a count for each of ([0-9,]+) keys",
            "messages/s",
            "keys, all as frequent",
            "messages a second, by number of keys",
            directory / "benchmark-keys.svg",
        )
    if sizes := groups.get("sizes"):
        rates_by(
            sizes,
            "messages of ([0-9,]+) bytes",
            "MB/s",
            "bytes of a message",
            "megabytes a second, by size of messages",
            directory / "benchmark-sizes.svg",
        )


if __name__ == "__main__":
    main(json.load(sys.stdin), Path(sys.argv[1]))
