"""`wallaroo replay`: writes the outputs of recorded messages to files, or sends them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from wallaroo.api.addresses import Address
from wallaroo.cli.option_types import ADDRESS, MOMENT, WithOptionalArgument
from wallaroo.cli.options import CALL_LIMIT, READ_ARCHIVE, SNAPSHOT, STATE_DIR_OF_APP
from wallaroo.cli.replay_targets import targets
from wallaroo.cli.saved_state import committed_state, log_of_application, read_log
from wallaroo.errors import UsageError
from wallaroo.history.changes import Arrival
from wallaroo.history.moments import Moment
from wallaroo.history.replay import Replay
from wallaroo.run.user_output import (
    empty_stdin,
    limited_calls,
    reported_exits,
    reserved_stdout,
)
from wallaroo.system.printable import counted, printable, shown_time
from wallaroo.system.private_files import private_files


@click.command(cls=WithOptionalArgument)
@click.argument("app")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), required=False)
@click.option(
    "--to",
    type=ADDRESS,
    multiple=True,
    metavar="[SINK@]HOST:PORT",
    help="Receiver that gets the outputs of a TCP sink, in place of a file. Can be given several "
    "times, once for each sink.",
)
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
    directory: Path | None,
    to: tuple[Address, ...],
    begin: Moment | None,
    end: Moment | None,
    state_dir: Path | None,
    archive: Path | None,
    snapshot: Path | None,
    function_timeout: float,
    app_args: tuple[str, ...],
) -> None:
    """Run messages that the log keeps through APP again, and write their outputs to DIRECTORY.

    There is a file for each sink; DIRECTORY must not exist yet, or be empty. With --to, a receiver
    gets the outputs of a TCP sink, as from that sink; those of sinks without one are left out if
    DIRECTORY is missing. Each message meets the state that was published before it. A running
    application is not touched, and nothing else is sent. Outputs are written one after the other,
    as over TCP; outputs that are separate messages, as those of topics and webhooks, get a line
    each. Side effects of functions, such as writes to a database, happen again.

    \b
    Example:
      wallaroo replay apps/word_count again --begin 1200 --end 1300
      wallaroo replay apps/word_count --begin 1200 --to 127.0.0.1:7002
      wallaroo replay new/orders.py again --state-dir .wallaroo/orders --begin 2026-11-29T13:00
    """  # noqa: D301  (click reads \b)
    with reserved_stdout(), empty_stdin(), reported_exits(), ExitStack() as opened:
        application, log = log_of_application(app, app_args, state_dir)
        found_targets = opened.enter_context(targets(application, directory, to))
        opened.enter_context(limited_calls(function_timeout))
        messages = 0
        kept: list[Arrival] = []
        """The first and the last message in the log."""
        made: list[tuple[str, bytes]] = []
        """Outputs of a publication: taken after it, as a receiver may let them wait."""
        beginning = committed_state(application, snapshot)
        records = read_log(log, archive=archive, beginning=beginning)
        opened.callback(records.close)
        found = Replay(application, records, beginning=beginning)

        def counts_here(arrival: Arrival) -> bool:
            is_early = begin is not None and begin.is_after(arrival)
            return not is_early and (end is None or not end.is_before(arrival))

        def keep(sink: str, output: bytes, arrival: Arrival) -> None:
            if counts_here(arrival):
                made.append((sink, output))

        def note(arrival: Arrival) -> None:
            nonlocal messages
            if arrival.source is not None:
                messages += counts_here(arrival)
                kept[1:] = [arrival]

        found.rerun.on_sent, found.rerun.on_arrival = keep, note
        for publication, touched in found:
            found.run(publication, set(), touched)
            found.settle(publication, touched, set())
            for sink, output in made:
                found_targets[sink].take(output)
            made.clear()
        if not messages:
            raise UsageError(_nothing_there(log, kept))
        for target in found_targets.values():
            target.finish()
    click.echo(f"{counted(messages, 'message')} run again", err=True)
    for target in found_targets.values():
        click.echo(printable(target.summary), err=True)
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
