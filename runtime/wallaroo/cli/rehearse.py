"""`wallaroo rehearse`: shows what other code makes of the messages that the log keeps."""

from __future__ import annotations

from pathlib import Path

import click

from wallaroo.cli.comparison import EXPECT, check_expected, comparison_lines
from wallaroo.cli.costs import BASELINE, baseline_of_command, cost_lines, rehearsal_beside
from wallaroo.cli.options import CALL_LIMIT, READ_ARCHIVE, SNAPSHOT, STATE_DIR_OF_APP
from wallaroo.cli.saved_state import committed_state, log_of_application, read_log
from wallaroo.errors import UsageError
from wallaroo.run.user_output import (
    empty_stdin,
    limited_calls,
    reported_exits,
    reserved_stdout,
)
from wallaroo.system.printable import printable


@click.command()
@click.argument("app")
@STATE_DIR_OF_APP
@READ_ARCHIVE
@SNAPSHOT
@EXPECT
@BASELINE
@CALL_LIMIT
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def rehearse(
    app: str,
    state_dir: Path | None,
    archive: Path | None,
    snapshot: Path | None,
    expected: tuple[str, ...],
    old: str | None,
    function_timeout: float,
    app_args: tuple[str, ...],
) -> None:
    """Run changed code, APP, over the messages that the log keeps, and compare what comes of it.

    Outputs and state are compared with those that were published, and differences are shown by
    kind, each with an example. The exit code is 1 if something differs that --expect does not
    name. Nothing is sent, and a running application is not touched. Side effects of functions, such
    as writes to a database, happen.

    If the log does not begin with the first message, the state of a key is compared from its first
    change in the log on, and outputs are not compared, unless --snapshot has the state before.

    \b
    Example:
      wallaroo rehearse new/word_count --state-dir word_count/.wallaroo/word-count-application
      wallaroo rehearse new/orders.py --state-dir recorded --expect totals
    """  # noqa: D301  (click reads \b)
    with (
        reserved_stdout() as out,
        empty_stdin(),
        reported_exits(),
        baseline_of_command(old, app_args, function_timeout) as baseline,
    ):
        application, directory = log_of_application(app, app_args, state_dir)
        beginning = committed_state(application, snapshot)
        with limited_calls(function_timeout):
            records = read_log(directory, archive=archive, beginning=beginning)
            rehearsal = rehearsal_beside(baseline, application, records, beginning)
            rehearsal.run()
            if baseline is not None:
                baseline.finish()
        check_expected(rehearsal, application, expected)
        if not (rehearsal.messages or rehearsal.unread):
            since = "" if beginning is None else " after the state to begin with"
            msg = f"the log in {directory} has no message that was processed{since}"
            raise UsageError(msg)
        for line in (*comparison_lines(rehearsal), *cost_lines(baseline, rehearsal)):
            click.echo(printable(line), file=out)
    if rehearsal.differing_names() - set(expected):
        click.get_current_context().exit(1)
