"""A running application in a few lines of a terminal, and in one line elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from wallaroo.system.printable import printable

Snapshot = dict[str, Any]
"""What `Watch.now` gives."""
_FRAMES_A_SECOND = 2
_BEHIND_S = 60.0
"""Seconds that the oldest message waits from which on the backlog is shown as a problem."""
_KEPT_ERRORS = 3


def panel(name: str, seen: Snapshot) -> RenderableType:
    """*seen* as a table of pipelines, and a line of what they share."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("pipeline")
    for column in ("in /s", "out /s", "p50", "p95", "p99", "messages"):
        table.add_column(column, justify="right")
    for pipeline, told in seen["point"]["pipelines"].items():
        latencies = [seconds(told[part]) for part in ("p50", "p95", "p99")]
        rates = [number(told["in"]), number(told["out"])]
        table.add_row(Text(printable(pipeline)), *rates, *latencies, f"{told['messages']:,}")
    lines: list[RenderableType] = [
        Text.assemble((printable(name), "bold"), "  ", _shared(seen)),
        table,
    ]
    for error in seen["errors"][:_KEPT_ERRORS]:
        place = f"{error['pipeline']} · {error['step']} ({error['place']})"
        lines.append(
            Text(printable(f"{place}: {error['error']}"), style="red", overflow="ellipsis")
        )
    return Group(*lines)


def line(seen: Snapshot) -> str:
    """*seen* as one line of plain text."""
    pipelines = seen["point"]["pipelines"].values()
    slowest = max((told["p99"] or 0.0 for told in pipelines), default=0.0)
    parts = [
        f"in {number(sum(told['in'] for told in pipelines))}/s",
        f"out {number(sum(sink['rate'] for sink in seen['sinks']))}/s",
        f"p99 {seconds(slowest or None)}",
        _shared(seen).plain,
    ]
    return "  ".join(parts)


def number(value: float) -> str:
    """*value* in few digits.

    Example:
        >>> number(0.25), number(850), number(123_456), number(2_500_000)
        ('0.2', '850', '123 k', '2.50 M')
    """
    if value >= 1e6:  # noqa: PLR2004
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:  # noqa: PLR2004
        return f"{value / 1e3:.0f} k"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"  # noqa: PLR2004


def seconds(value: float | None) -> str:
    """A time in few digits.

    Example:
        >>> seconds(0.25), seconds(2.5), seconds(90), seconds(None)
        ('250 ms', '2.50 s', '1.5 min', '–')
    """
    if value is None:
        return "–"
    if value < 1:
        return f"{1000 * value:.0f} ms"
    return f"{value:.2f} s" if value < 60 else f"{value / 60:.1f} min"  # noqa: PLR2004


class LiveView:
    """Shows what *look* sees at the end of a terminal; what is logged scrolls above it.

    Args:
        name: Name of the application.
        look: Gives what is seen next after a time, waiting for it for some seconds; `Watch.now`.
        console: The terminal.
    """

    def __init__(
        self, name: str, look: Callable[[float, float], Snapshot | None], console: Console
    ) -> None:
        self._name = name
        self._look = look
        self._live = Live(
            Text(""),
            console=console,
            refresh_per_second=_FRAMES_A_SECOND,
            transient=True,
            redirect_stdout=False,
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live view", daemon=True)

    def __enter__(self) -> Self:
        self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take it off the terminal."""
        self._stopping.set()
        self._live.stop()

    def _run(self) -> None:
        at = 0.0
        while not self._stopping.is_set():
            seen = self._look(at, 1.0)
            if seen is None or seen["time"] <= at:
                self._stopping.wait(0.2)
                continue
            at = seen["time"]
            self._live.update(panel(self._name, seen))


def suits(console: Console) -> bool:
    """Whether a live view can be shown on *console*."""
    return console.is_terminal and not console.is_dumb_terminal


def _shared(seen: Snapshot) -> Text:
    backlog, workers = seen["backlog"], seen["workers"]
    text = Text()
    behind = backlog["seconds"] > _BEHIND_S
    waits = f" ({seconds(backlog['seconds'])})" if backlog["messages"] else ""
    text.append(f"backlog {number(backlog['messages'])}{waits}", "red" if behind else "")
    text.append(f"  undelivered {number(seen['point']['undelivered'])}")
    missing = workers["alive"] is not None and workers["alive"] < workers["wanted"]
    alive = "–" if workers["alive"] is None else f"{workers['alive']:.0f}"
    wanted = "–" if workers["wanted"] is None else f"{workers['wanted']:.0f}"
    text.append(f"  workers {alive}/{wanted}", "red" if missing else "")
    text.append(f"  connections {seen['connections']}")
    text.append(f"  set aside {number(seen['set_aside'])}", "red" if seen["set_aside"] else "")
    if dropped := seen["unknown_key"] + seen["late"]:
        text.append(f"  dropped {number(dropped)}")
    return text
