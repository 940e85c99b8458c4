"""`wallaroo demo`: runs an application on generated data and checks every output."""

from __future__ import annotations

import collections
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, cast

import click

from wallaroo.cli.demo_traffic import Outputs, Senders
from wallaroo.cli.options import WORKERS, application_without_addresses
from wallaroo.cli.streams import FramingName, TransferProgress
from wallaroo.errors import UsageError
from wallaroo.run.background_run import BackgroundRun
from wallaroo.run.stopping import kill_children
from wallaroo.run.user_output import reserved_stdout
from wallaroo.system.shipped_files import shipped_file

_WARM_UP_TURNS = 4
"""Turns that are sent first, so that Spark is warm when measuring starts."""
_REMOVAL_S = 10.0
"""Seconds for the processes of a killed run to end."""
_ABSENT_S = 1.0
"""Seconds in which they would have written again."""
_REMOVAL_CHECK_S = 0.05
_NOT_USED = "addresses not used"
"""What is logged where sources read topics: there are addresses for all sources."""


class DemoData(Protocol):
    """The module `demo` of an application."""

    OUTPUT_FRAMING: FramingName

    def rounds(self, messages: int, seed: int) -> Iterable[tuple[str, list[bytes]]]:
        """The payloads to send, turn by turn: pairs of a source's name and payloads."""

    def expected(self, sent: Iterable[tuple[str, list[bytes]]]) -> Iterator[list[bytes]]:
        """The comparable outputs of each turn, computed in plain Python."""

    def comparable(self, output: bytes) -> bytes:
        """An output without the parts that differ between runs."""

    def key(self, output: bytes) -> bytes:
        """The key of an output; outputs with equal keys arrive in order."""


@click.command()
@click.argument("app")
@click.option(
    "--messages",
    default=200_000,
    show_default=True,
    type=click.IntRange(1),
    help="Number of messages to generate.",
)
@click.option("--seed", default=7, show_default=True, help="Seed of the generated data.")
@WORKERS.but(default=2, show_default=True)
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def demo(app: str, messages: int, seed: int, workers: int, app_args: tuple[str, ...]) -> None:
    """Generate data, run APP on it over real sockets, and check every output.

    APP is market_spread, word_count, or the directory of an application that has a module demo. The
    outputs are compared with those of a plain Python computation on the same stream. The first few
    messages warm Spark up; the others are sent in one burst, and the rate and the latencies are
    those of the burst, from its first message to its last output. Sources that
    read topics of Kafka get the data through their topics, which must exist and be empty; outputs
    in topics are read from there.

    \b
    Example:
      wallaroo demo market_spread --messages 500000
    """  # noqa: D301  (click reads \b)
    directory = _application_directory(app)
    with reserved_stdout():
        application = application_without_addresses(str(directory), app_args)
        data = cast("DemoData", importlib.import_module("demo"))
    click.echo(f"generating {messages:,} messages (seed {seed})", err=True)
    rounds = list(data.rounds(messages, seed))
    expected = list(data.expected(rounds))
    state = Path(tempfile.mkdtemp(prefix="wallaroo-demo-"))

    def end(number: int, _frame: object) -> None:
        """End at once: what a handler raises is lost in some callbacks, and Arrow prints it."""
        kill_children()
        _remove(state, _ABSENT_S)
        if number == signal.SIGINT:
            click.echo("interrupted", err=True)
        os._exit(128 + number)  # as a shell reports a signal

    ending = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        ending.append(signal.SIGINT)
    before = {number: signal.signal(number, end) for number in ending}
    try:
        senders = Senders(application)
        with Outputs(application, data.OUTPUT_FRAMING) as outputs:
            addresses = ",".join("127.0.0.1:0" for _ in application.sources)
            arguments = [
                *("run", "--child", str(directory), "--in", addresses, "--out", outputs.address),
                *("--workers", str(workers), "--state-dir", str(state), "--", *app_args),
            ]
            click.echo("starting Spark", err=True)
            with BackgroundRun(arguments, on_event=_show) as running:
                sent_at = _send(running, senders, rounds)
                outputs.wait_for(sum(map(len, expected)), running)
                running.stop()
        table = _Result(data, rounds, expected, sent_at, outputs.received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _remove(state)
    table.show(application.name)
    if table.problems:
        sys.exit(1)


def _remove(directory: Path, absent_s: float = 0.0) -> None:
    """Delete *directory*, until it has been absent for *absent_s*.

    Processes of a killed run may still write there for a moment, and so recreate it.
    """
    deadline = time.monotonic() + _REMOVAL_S
    seen = time.monotonic()
    while (now := time.monotonic()) < deadline:
        if directory.exists():
            shutil.rmtree(directory, ignore_errors=True)
            seen = now
        elif now - seen >= absent_s:
            return
        time.sleep(_REMOVAL_CHECK_S)


def _application_directory(app: str) -> Path:
    examples = shipped_file("apps")
    for candidate in (Path(app), examples / app):
        if (candidate / "demo.py").is_file():
            return candidate.resolve()
    known = ", ".join(sorted(path.parent.name for path in examples.glob("*/demo.py")))
    msg = (
        f"there is no application {app!r} with a demo: use {known}, or a directory with "
        "application.py and demo.py"
    )
    raise UsageError(msg)


def _show(event: dict[str, object]) -> None:
    if event["event"] == _NOT_USED:
        return
    if event.get("level") in ("warning", "error"):
        click.echo(f"{event}", err=True)


def _send(
    running: BackgroundRun, senders: Senders, rounds: Sequence[tuple[str, list[bytes]]]
) -> list[float]:
    """Send turn by turn, each after the previous one is accepted, so that their order is known.

    The first few turns warm Spark up: the others are sent after these are processed.

    Returns:
        The time at which each turn was sent.
    """
    progress, sent_at = TransferProgress("sent", rates=False), []
    totals: collections.Counter[str] = collections.Counter()
    for number, (source, payloads) in enumerate(rounds):
        if number == _WARM_UP_TURNS:
            click.echo("warming up", err=True)
            running.wait_until_processed()
        sent_at.append(time.monotonic())
        size = senders.send(running, source, payloads)
        totals[source] += len(payloads)
        running.wait_until_accepted(source, totals[source])
        progress.add(len(payloads), size)
    senders.close()
    progress.close()
    return sent_at


class _Result:
    """The received outputs, compared with the expected ones."""

    def __init__(
        self,
        data: DemoData,
        rounds: Sequence[tuple[str, list[bytes]]],
        expected: Sequence[list[bytes]],
        sent_at: Sequence[float],
        received: Sequence[tuple[float, bytes]],
    ) -> None:
        self._messages = sum(len(payloads) for _, payloads in rounds)
        warm = _WARM_UP_TURNS if len(rounds) > _WARM_UP_TURNS else 0
        self._measured = sum(len(payloads) for _, payloads in rounds[warm:])
        self._received = len(received)
        pending: dict[bytes, collections.deque[tuple[float, bytes]]] = collections.defaultdict(
            collections.deque
        )
        for sent, outputs in zip(sent_at, expected, strict=True):
            for output in outputs:
                pending[data.key(output)].append((sent, output))
        self._latencies: list[float] = []
        self.problems: list[str] = []
        for at, output in received:
            of_key, actual = pending[data.key(output)], data.comparable(output)
            if not of_key or of_key[0][1] != actual:
                self.problems.append(f"unexpected, or in the wrong order: {output!r}")
                continue
            sent, _ = of_key.popleft()
            if sent >= sent_at[warm]:
                self._latencies.append(at - sent)
        missing = sum(map(len, pending.values()))
        if missing:
            self.problems.append(f"{missing:,} outputs are missing")
        last = received[-1][0] if received else time.monotonic()
        self._duration = last - sent_at[warm]

    def show(self, name: str) -> None:
        """Print the table, with the verdict on its last line."""
        latencies = sorted(self._latencies) or [0.0]

        def percentile(part: float) -> str:
            return (
                f"{1000 * latencies[min(int(part * len(latencies)), len(latencies) - 1)]:,.0f} ms"
            )

        rows = [
            ("messages in", f"{self._messages:,}"),
            ("messages out", f"{self._received:,}"),
            ("burst", f"{self._measured:,} messages"),
            ("its rate", f"{self._measured / self._duration:,.0f} messages/s"),
            ("its latency, p50", percentile(0.50)),
            ("its latency, p99", percentile(0.99)),
        ]
        click.echo(name)
        for label, value in rows:
            click.echo(f"  {label:<18}{value:>18}")
        for problem in self.problems[:5]:
            click.echo(f"  wrong: {problem}")
        verdict = (
            f"FAILED: {len(self.problems)} of {self._received:,} outputs are wrong"
            if self.problems
            else f"OK: all {self._received:,} outputs are those of the plain-Python computation"
        )
        click.echo(verdict)
