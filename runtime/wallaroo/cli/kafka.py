"""`wallaroo kafka`: shows and moves how far an application has read its topics."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from wallaroo.cli.options import STATE_DIR_OF_APP, application_without_addresses
from wallaroo.cli.tables import table
from wallaroo.connectors.kafka.positions import Partition
from wallaroo.connectors.kafka.progress import Progress, Target
from wallaroo.connectors.kafka.resolve import KafkaSource
from wallaroo.errors import UsageError
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.journal.write_buffer import Reached
from wallaroo.gateway.reading import Reading
from wallaroo.gateway.store import Store
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.run.state.location import default_state_dir
from wallaroo.run.user_output import reserved_stdout
from wallaroo.system.lockfile import hold
from wallaroo.system.printable import printable
from wallaroo.system.private_files import private_files


class _TargetType(click.ParamType):  # type: ignore[type-arg]
    """Where positions are moved, as a click type."""

    name = "earliest|latest|OFFSET|TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Target:
        """Parse *value*."""
        if value in {"earliest", "latest"}:
            return str(value)
        if value.isdecimal():
            return int(value)
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            wanted = "earliest, latest, an offset or a time such as 2026-11-27T09:30+01:00"
            self.fail(f"{value!r} is not one of {wanted}", param, ctx)
        if time.tzinfo is None:
            self.fail(f"{value!r} has no time zone: append Z or one such as +01:00", param, ctx)
        return time


@click.group()
def kafka() -> None:
    """Show and move how far an application has read topics of Kafka."""


@kafka.command()
@click.argument("app")
@STATE_DIR_OF_APP
@click.option("--source", "name", help="Only this source.")
@click.option("--topic", "topics", multiple=True, help="Only this topic, of several of a source.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this partition. Can be given several times.",
)
@click.option(
    "--set",
    "target",
    type=_TargetType(),
    metavar=_TargetType.name,
    help="Move the positions to the first record, behind the last one, to an offset, or to the "
    "first record from a time on (ISO 8601, with a time zone).",
)
@click.option("--yes", is_flag=True, help="Move them without asking.")
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
@private_files()
def positions(
    app: str,
    state_dir: Path | None,
    name: str | None,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    target: Target | None,
    yes: bool,
    app_args: tuple[str, ...],
) -> None:
    """Show how far APP has read its topics, or move these positions while it is stopped.

    A position is the offset of the next record. The lag is the number of offsets between it and the
    end of the partition, as readers of committed records see it. A running application is shown as
    of its log.

    After a move back, the next start reads records again: their outputs are sent again, and states
    count them twice. After a move forward, it skips records.

    \b
    Example:
      wallaroo kafka positions shop.py
      wallaroo kafka positions shop.py --set 2026-11-27T09:30+01:00
      wallaroo kafka positions shop.py --source Orders --partition 3 --set 4711
    """  # noqa: D301  (click reads \b)
    with reserved_stdout():
        application = application_without_addresses(app, app_args)
    state_dir = state_dir or default_state_dir(ApplicationRef(app), application.name)
    if not (state_dir / LOG).exists():
        msg = (
            f"{state_dir} is not a state directory: it contains no {LOG}. Until the application "
            "has run, its sources begin where their `start` says"
        )
        raise UsageError(msg)
    sources = _sources(application, name)
    if target is None:
        stored = _stored(application, state_dir)
        found = [Progress(source, stored(source.name)) for source in sources]
        click.echo("\n".join(map(printable, _shown(found, topics, partitions))))
        return
    if len(sources) > 1:
        names = ", ".join(repr(source.name) for source in sources)
        msg = f"{app} has several sources that read topics; name one with --source: {names}"
        raise UsageError(msg)
    with contextlib.ExitStack() as at_end:
        for file in ("lock", "gateway.lock"):  # of a run, which may just restart its gateway
            held = hold(state_dir / file, "stop the application first", wait_s=0.0)
            at_end.callback(os.close, held)
        _move(application, state_dir, sources[0], topics, partitions, target, yes=yes)


def _sources(application: Application, name: str | None) -> list[KafkaSource]:
    """The sources that read topics, or only that called *name*.

    Raises:
        UsageError: There is none.
    """
    sources = [one for one in application.sources if isinstance(one, KafkaSource)]
    found = [one for one in sources if name in {None, one.name}]
    if not found:
        called = "" if name is None else f" {name!r}"
        names = ", ".join(repr(one.name) for one in sources) or "none"
        msg = f"{application.name!r} has no source{called} that reads a topic; it has: {names}"
        raise UsageError(msg)
    return found


def _stored(application: Application, state_dir: Path) -> Callable[[str], bytes | None]:
    """The positions in *state_dir*, by the name of their source.

    Raises:
        UsageError: It is another application's.
    """
    reading = Reading(state_dir / LOG)
    owner = (reading.contents.tables or {}).get("application", application.name)
    if owner != application.name:
        msg = f"{state_dir} belongs to {owner!r}, not to {application.name!r}"
        raise UsageError(msg)
    return reading.journal.reached


def _chosen(
    progress: Progress, topics: Sequence[str], partitions: Sequence[int]
) -> list[Partition]:
    """The given *partitions* of the given *topics*, or of all; or all partitions.

    Raises:
        UsageError: There are none.
    """
    where = progress.source.topic
    for topic in topics:
        if topic not in progress.topics.found:
            msg = f"source {progress.source.name!r} reads no topic {topic} at {where.brokers}"
            raise UsageError(msg)
    known = sorted(at for at in progress.bounds if not topics or at.topic in topics)
    if not known and partitions:
        msg = f"source {progress.source.name!r} reads no topic at {where.brokers}"
        raise UsageError(msg)
    for number in partitions:
        if all(at.number != number for at in known):
            last = max(known, key=lambda at: at.number)
            others = ", and no other topic has more" if len({at.topic for at in known}) > 1 else ""
            which = where.one(last.topic)
            msg = f"{which} has no partition {number}; the last one is {last.number}{others}"
            raise UsageError(msg)
    return [at for at in known if not partitions or at.number in partitions]


def _shown(
    found: Sequence[Progress], topics: Sequence[str], partitions: Sequence[int]
) -> Iterator[str]:
    """Positions as a table, and why there are none or why they cannot be resumed."""
    rows = []
    for progress in found:
        for at in _chosen(progress, topics, partitions):
            (first, end), position = progress.bounds[at], progress.position(at)
            lag = None if position is None else max(0, end - position)
            rows.append([progress.source.name, *at, _cell(position), first, end, _cell(lag)])
    yield from table(["SOURCE", "TOPIC", "PARTITION", "POSITION", "FIRST", "END", "LAG"], rows)
    for progress in found:
        if progress.positions is None:
            yield _unread(progress.source)
        if progress.topics.missing is not None:
            yield f"source {progress.source.name!r}: {progress.topics.missing}"
        for reason in progress.lost:
            skips = progress.source.skips_lost
            remedy = "" if skips else "; move its positions, or start once with --on-lost skip"
            yield f"source {progress.source.name!r}: {reason}{remedy}"


def _move(
    application: Application,
    state_dir: Path,
    source: KafkaSource,
    topics: Sequence[str],
    partitions: Sequence[int],
    target: Target,
    *,
    yes: bool,
) -> None:
    """Move the positions of *source* in some partitions, while the gateway is stopped."""
    progress = Progress(source, _stored(application, state_dir)(source.name))
    if progress.positions is None:
        msg = f"{_unread(source)}; it has no position to move yet: set `start` in the code"
        raise UsageError(msg)
    chosen = _chosen(progress, topics, partitions)
    moved = progress.recreated & {at.topic for at in chosen}
    if any(at.topic in moved and at not in chosen for at in progress.bounds):
        msg = f"{'; '.join(progress.lost)}: move all partitions, without --partition"
        raise UsageError(msg)
    offsets = progress.offsets(target, chosen)
    before = {at: progress.position(at) for at in offsets}
    rows = [[source.name, *at, _cell(before[at]), offsets[at]] for at in offsets]
    head = ["SOURCE", "TOPIC", "PARTITION", "BEFORE", "AFTER"]
    click.echo("\n".join(map(printable, table(head, rows))))
    if before == offsets:
        click.echo("nothing to move")
        return
    moves = [
        (progress.bounds[at][0] if old is None else old, offsets[at]) for at, old in before.items()
    ]
    if any(new < old for old, new in moves):
        click.echo(
            "Records are read again: their outputs are sent again, and states count them twice."
        )
    if any(new > old for old, new in moves):
        click.echo("Records are skipped: they are never processed.")
    if not yes:
        click.confirm("Move the positions?", abort=True)
    names = [[one.name for one in part] for part in (application.sources, application.sinks)]
    store = Store(state_dir, application.name, sources=names[0], sinks=names[1])
    with contextlib.closing(store):
        reached = Reached(source.name, progress.moved(offsets))
        store.move(application.sources.index(source), reached)
    click.echo("moved")


def _cell(number: int | None) -> str:
    return "-" if number is None else str(number)


def _unread(source: KafkaSource) -> str:
    start = source.start
    if isinstance(start, int):
        start = datetime.fromtimestamp(start / 1000, UTC).isoformat(timespec="milliseconds")
    return f"source {source.name!r} has not been read yet: its first start begins at {start}"
