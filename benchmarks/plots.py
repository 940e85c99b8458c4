"""The plots of the benchmarks' page; runs in the peers' environment, which has matplotlib.

python -m benchmarks.plots HISTORY DIRECTORY
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

_OURS, _OTHERS = "#1f6f8b", "#b8b8b8"


def bars(figures: list[dict[str, Any]], app: str, file: Path) -> None:
    """Messages a second of ours and of each peer."""
    rows = [f for f in figures if f["what"].startswith(app + ", ") and f["unit"] == "messages/s"]
    rows = [f for f in rows if "journal" not in f["what"]][::-1]
    names = [
        f["what"].removeprefix(app + ", ").replace("TCP to TCP", "ours, TCP to TCP") for f in rows
    ]
    figure, axes = plt.subplots(figsize=(7, 0.5 + 0.4 * len(rows)))
    colours = [_OURS if name.startswith("ours") else _OTHERS for name in names]
    drawn = axes.barh(names, [f["value"] for f in rows], color=colours)
    axes.bar_label(drawn, labels=[f"{f['value']:,.0f}" for f in rows], padding=4)
    axes.set_title(f"{app}: messages a second, 2 cores", loc="left")
    _finish(figure, axes, file)


def latencies(figures: list[dict[str, Any]], file: Path) -> None:
    """Percentiles by rate."""
    rows = [f for f in figures if f["what"].startswith("Market Spread at ")]
    rates = [f["what"].removeprefix("Market Spread at ").split(" ")[0] for f in rows]
    figure, axes = plt.subplots(figsize=(7, 3))
    axes.plot(rates, [f["detail"]["p99"] for f in rows], "o--", color=_OURS, label="p99")
    axes.plot(rates, [f["value"] for f in rows], "o-", color=_OURS, label="p50")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("messages a second")
    axes.set_title("milliseconds from socket to socket", loc="left")
    axes.legend(frameon=False)
    _finish(figure, axes, file)


def _finish(figure: Any, axes: Any, file: Path) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.15)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    run = json.loads(Path(sys.argv[1]).read_text().splitlines()[-1])
    directory = Path(sys.argv[2])
    bars(run["figures"], "Market Spread", directory / "benchmark-market-spread.svg")
    bars(run["figures"], "Word Count", directory / "benchmark-word-count.svg")
    latencies(run["figures"], directory / "benchmark-latency.svg")
