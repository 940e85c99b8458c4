"""`wallaroo replay`: writes the outputs of recorded messages to files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import click

from wallaroo.cli.option_types import MOMENT
from wallaroo.cli.options import CALL_LIMIT, READ_ARCHIVE, SNAPSHOT, STATE_DIR_OF_APP
from wallaroo.cli.saved_state import committed_state, log_of_application, read_log
from wallaroo.errors import UsageError, reason_of
from wallaroo.history.changes import Arrival
from wallaroo.history.moments import Moment, shown_time
from wallaroo.history.replay import Replay
from wallaroo.model.application import Application
from wallaroo.run.user_output import (
    empty_stdin,
    limited_calls,
    reported_exits,
    reserved_stdout,
)
from wallaroo.system.printable import counted, printable
from wallaroo.system.private_files import private_files


@click.command()
@click.argument("app")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--begin",
    type=MOMENT,
    help="First message, or time from which on messages count.",
    show_default="the oldest message",
)
@click.option(
    "--end",
    type=MOMENT,
    help="Last message, or time up to which messages count.",
    show_default="the latest message",
)
@STATE_DIR_OF_APP
@READ_ARCHIVE
@SNAPSHOT
@CALL_LIMIT
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
@private_files()
def replay(
    app: str,
    directory: Path,
    begin: Moment | None,
    end: Moment | None,
    state_dir: Path | None,
    archive: Path | None,
    snapshot: Path | None,
    function_timeout: float,
    app_args: tuple[str, ...],
) -> None:
    """Run messages that the log keeps through APP again, and write their outputs to DIRECTORY.

    There is a file for each sink; DIRECTORY must not exist yet, or be empty. Each message meets the
    state that was published before it. Nothing is sent, and a running
    application is not touched. Outputs are written one after the other, as over TCP; outputs that
    are separate messages, as those of topics and webhooks, get a line each. Side effects of
    functions, such as writes to a database, happen again.

    \b
    Example:
      wallaroo replay apps/word_count again --begin 1200 --end 1300
      wallaroo replay new/orders.py again --state-dir .wallaroo/orders --begin 2026-11-29T13:00
    """  # noqa: D301  (click reads \b)
    with reserved_stdout(), empty_stdin(), reported_exits(), ExitStack() as opened:
        application, log = log_of_application(app, app_args, state_dir)
        files = opened.enter_context(_files(application, directory))
        opened.enter_context(limited_calls(function_timeout))
        joined = {sink.name for sink in application.output_sinks if sink.joins_outputs}
        counts = dict.fromkeys(files, 0)
        messages = 0
        kept: list[Arrival] = []
        """The first and the last message in the log."""
        beginning = committed_state(application, snapshot)
        records = read_log(log, archive=archive, beginning=beginning)
        found = Replay(application, records, beginning=beginning)

        def counts_here(arrival: Arrival) -> bool:
            is_early = begin is not None and begin.is_after(arrival)
            return not is_early and (end is None or not end.is_before(arrival))

        def write(sink: str, output: bytes, arrival: Arrival) -> None:
            if counts_here(arrival):
                ends = sink in joined or output.endswith(b"\n")
                files[sink].write(output if ends else output + b"\n")
                counts[sink] += 1

        def note(arrival: Arrival) -> None:
            nonlocal messages
            if arrival.source is not None:
                messages += counts_here(arrival)
                kept[1:] = [arrival]

        found.rerun.on_sent, found.rerun.on_arrival = write, note
        for publication, touched in found:
            found.run(publication, set(), touched)
            found.settle(publication, touched, set())
        if not messages:
            raise UsageError(_nothing_there(log, kept))
    click.echo(f"{counted(messages, 'message')} run again", err=True)
    for sink, file in files.items():
        click.echo(printable(f"{counted(counts[sink], 'output')} in {file.name}"), err=True)
    if found.rerun.lacking:
        left = counted(found.rerun.lacking, "call")
        click.echo(f"{left} left out: the entity was there before the log begins", err=True)


def _nothing_there(log: Path, kept: list[Arrival]) -> str:
    """That no message is in the range, and which ones there are."""
    if not kept:
        return f"the log in {log} has no message that was processed"
    first, last = kept[0], kept[-1]
    times = f"{shown_time(first.at_ns)} to {shown_time(last.at_ns)}"
    there = f"offsets {first.offset:,} to {last.offset:,}, from {times}"
    return f"no processed message is in this range; the log in {log} has {there}"


@contextmanager
def _files(application: Application, directory: Path) -> Iterator[dict[str, IO[bytes]]]:
    """A file for each sink; what was made is removed if the block fails.

    Raises:
        UsageError: They cannot be made.
    """
    file: IO[bytes]
    files: dict[str, IO[bytes]] = {}
    with ExitStack() as made:
        try:
            if not directory.exists():
                directory.mkdir()
                made.callback(directory.rmdir)
            if any(directory.iterdir()):
                msg = f"{directory} is not empty"
                raise UsageError(msg)
            for sink in application.output_sinks:
                path = _file_of(sink.name, directory)
                files[sink.name] = file = path.open("xb")
                made.callback(path.unlink)
                made.callback(file.close)
        except OSError as error:
            msg = f"{directory} cannot be written: {reason_of(error)}"
            raise UsageError(msg) from error
        yield files
        for file in files.values():
            file.close()
        made.pop_all()


def _file_of(sink: str, directory: Path) -> Path:
    """A file that is not there yet, named after *sink*."""
    name = re.sub(r"[^\w.-]+", "-", sink).strip("-.") or "outputs"
    others = (directory / f"{name}-{number}" for number in itertools.count(2))
    return next(file for file in itertools.chain([directory / name], others) if not file.exists())
