"""The live view of an application: a few lines on a terminal, a single line elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from wallaroo.system.printable import printable
from wallaroo.system.terminal import Echo, is_in_foreground

Snapshot = dict[str, Any]
"""What `Watch.now` gives."""
_FRAMES_A_SECOND = 2
_LATE_S = 60.0
"""Age of the oldest waiting message, in seconds, above which the backlog is shown in red."""
_MAX_ERRORS = 3


def panel(name: str, snapshot: Snapshot) -> RenderableType:
    """*snapshot* as a table of pipelines, below a line with what they share."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("pipeline")
    for column in ("in /s", "out /s", "p50", "p95", "p99", "messages"):
        table.add_column(column, justify="right")
    for pipeline, values in snapshot["point"]["pipelines"].items():
        latencies = [seconds(values[part]) for part in ("p50", "p95", "p99")]
        rates = [number(values["in"]), number(values["out"])]
        table.add_row(Text(printable(pipeline)), *rates, *latencies, f"{values['messages']:,}")
    lines: list[RenderableType] = [
        Text.assemble((printable(name), "bold"), "  ", _shared(snapshot)),
        table,
    ]
    for error in snapshot["errors"][:_MAX_ERRORS]:
        place = f"{error['pipeline']} · {error['step']} ({error['place']})"
        lines.append(
            Text(printable(f"{place}: {error['error']}"), style="red", overflow="ellipsis")
        )
    return Group(*lines)


def line(snapshot: Snapshot) -> str:
    """*snapshot* as one line of plain text."""
    pipelines = snapshot["point"]["pipelines"].values()
    slowest = max((values["p99"] or 0.0 for values in pipelines), default=0.0)
    parts = [
        f"in {number(sum(values['in'] for values in pipelines))}/s",
        f"out {number(sum(sink['rate'] for sink in snapshot['sinks']))}/s",
        f"p99 {seconds(slowest or None)}",
        _shared(snapshot).plain,
    ]
    return "  ".join(parts)


def number(value: float) -> str:
    """*value* with few digits.

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
    """A duration with few digits.

    Example:
        >>> seconds(0.0025), seconds(0.25), seconds(2.5), seconds(90), seconds(None)
        ('2.5 ms', '250 ms', '2.50 s', '1.5 min', '–')
    """
    if value is None:
        return "–"
    if value < 0.01:  # noqa: PLR2004
        return f"{1000 * value:.1f} ms"
    if value < 1:
        return f"{1000 * value:.0f} ms"
    return f"{value:.2f} s" if value < 60 else f"{value / 60:.1f} min"  # noqa: PLR2004


class LiveView:
    """Shows snapshots at the bottom of a terminal, below the log, while it is in the foreground.

    What is typed meanwhile is not shown.

    Args:
        name: Name of the application.
        next_snapshot: Returns the first snapshot after a time, or None if there is none within some
            seconds, as `Watch.now` does.
        console: The terminal.
    """

    def __init__(
        self,
        name: str,
        next_snapshot: Callable[[float, float], Snapshot | None],
        console: Console,
    ) -> None:
        self._name = name
        self._next_snapshot = next_snapshot
        self._terminal = console.file.fileno() if console.is_terminal else -1
        self._echo = Echo(self._terminal)
        self._shown = threading.Lock()
        """Held while the view is shown or removed."""
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
        self._show()
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove it from the terminal."""
        self._stopping.set()
        with self._shown:
            self._remove()

    def _show(self) -> None:
        """Show it, or remove it in the background, where a shell has its prompt."""
        with self._shown:
            if self._stopping.is_set():
                return
            if self._terminal >= 0 and not is_in_foreground(self._terminal):
                self._remove()
            elif not self._live.is_started:
                self._live.start()
                self._echo.stop()

    def _remove(self) -> None:
        self._live.stop()
        self._echo.resume()

    def _run(self) -> None:
        at = 0.0
        while not self._stopping.is_set():
            self._show()
            snapshot = self._next_snapshot(at, 1.0)
            if snapshot is None or snapshot["time"] <= at:
                self._stopping.wait(0.2)
                continue
            at = snapshot["time"]
            self._live.update(panel(self._name, snapshot))


def can_show(console: Console) -> bool:
    """Whether *console* can show a live view."""
    return console.is_terminal and not console.is_dumb_terminal


def _shared(snapshot: Snapshot) -> Text:
    backlog, workers = snapshot["backlog"], snapshot["workers"]
    text = Text()
    if snapshot["paused_since"] is not None:
        text.append("paused  ", "yellow")
    if (reason := snapshot["away"] or snapshot["interruption"]) is not None:
        text.append(f"{printable(reason)}  ", "red")
    for source in snapshot["sources"]:
        if source["waits"]:
            text.append(printable(f"{source['name']} {source['waits']}  "), "yellow")
    late = backlog["seconds"] > _LATE_S
    age = f" ({seconds(backlog['seconds'])})" if backlog["messages"] else ""
    text.append(f"backlog {number(backlog['messages'])}{age}", "red" if late else "")
    text.append(f"  undelivered {number(snapshot['point']['undelivered'])}")
    missing = workers["alive"] is not None and workers["alive"] < workers["wanted"]
    alive = "–" if workers["alive"] is None else f"{workers['alive']:.0f}"
    requested = "–" if workers["wanted"] is None else f"{workers['wanted']:.0f}"
    text.append(f"  workers {alive}/{requested}", "red" if missing else "")
    text.append(f"  connections {snapshot['connections']}")
    failed = snapshot["set_aside"]
    text.append(f"  set aside {number(failed)}", "red" if failed else "")
    if dropped := snapshot["unknown_key"]:
        text.append(f"  dropped {number(dropped)}")
    if (windows := snapshot["windows"]) is not None:
        text.append(f"  late {number(snapshot['late'])}  open windows {number(windows['open'])}")
        if windows["watermark_s"] is not None:
            text.append(f"  watermark {_time(windows['watermark_s'])}")
    return text


def _time(seconds_since_epoch: float) -> str:
    """A time in UTC, to the second.

    Example:
        >>> _time(60.5), _time(1e20)
        ('1970-01-01 00:01:00', 'out of range')
    """
    try:
        return f"{datetime.fromtimestamp(seconds_since_epoch, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return "out of range"
