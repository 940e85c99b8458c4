"""`wallaroo sql`: SQL on the state of an application."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from wallaroo.cli.options import STATE_OF_APP
from wallaroo.cli.query_output import Form, form_of, replaced, write_parquet, write_text
from wallaroo.cli.saved_state import check_loaded, saved_of_application, warn_of_unused
from wallaroo.errors import UsageError
from wallaroo.observability import logs
from wallaroo.run.queries.columns import sql_type
from wallaroo.run.queries.database import StateTables, duckdb
from wallaroo.run.user_output import reserved_stdout
from wallaroo.system.private_files import private_files

_OPTION = re.compile(r"--?[A-Za-z]\S*")
"""An option of the application, given where the query belongs."""


@click.command()
@click.argument("app")
@click.argument("query", required=False, default="")
@STATE_OF_APP
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    help="table: to read; long values are cut. csv: with a header. json: one object per line. "
    "parquet: a file, which --to names.",
    show_default="table, or what the name of --to ends with",
)
@click.option(
    "--to",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that the result is written to, instead of standard output.",
)
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
@private_files()
def sql(
    app: str,
    query: str,
    state_dir: Path | None,
    form: Form | None,
    file: Path | None,
    app_args: tuple[str, ...],
) -> None:
    """Query the state of an application with SQL, as of its last chunk.

    Each state is a table of the state's name, with a column `key` and one for each attribute of its
    entities. Without a QUERY (or with ''), the tables and their columns are listed. - reads the
    query from standard input. The application may be running, stopped or killed; nothing is
    changed.

    \b
    Example:
      wallaroo sql apps/word_count
      wallaroo sql apps/word_count 'select key, word_totals from "word totals"'
      wallaroo sql apps/word_count - --to totals.parquet < query.sql
    """  # noqa: D301  (click reads \b)
    logs.configure("info")  # without what Java prints when it starts
    duckdb()
    form = form or form_of(file)
    if form == "parquet" and file is None:
        msg = "Parquet needs a file: name it with --to FILE"
        raise UsageError(msg)
    if _OPTION.fullmatch(query):
        msg = f"{query!r} is not a query; put a query, or '', before the application's arguments"
        raise UsageError(msg)
    query = _read_query() if query == "-" else query
    with reserved_stdout() as out:
        with (
            saved_of_application(app, app_args, state_dir) as (saved, application, _),
            StateTables(application) as tables,
        ):
            tables.fill(saved, query or None)
            warn_of_unused(saved, "entities are in no table")
            with tables.result(query or listing(tables)) as result:
                if file is None:
                    write_text(result, form, out)
                elif form == "parquet":
                    with replaced(file) as fresh:
                        write_parquet(result, fresh)
                else:
                    with replaced(file) as fresh, fresh.open("w", encoding="utf-8") as opened:
                        write_text(result, form, opened)
        out.flush()
        check_loaded(tables.problems, "are in no table")


def _read_query() -> str:
    """The query on standard input.

    Raises:
        UsageError: It is empty, or not UTF-8.
    """
    try:
        query = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        msg = f"the query on standard input is not UTF-8: {error.reason} at byte {error.start}"
        raise UsageError(msg) from error
    if not query.strip():
        msg = "there is no query on standard input"
        raise UsageError(msg)
    return query


def listing(tables: StateTables) -> str:
    """A query whose result is what tables there are."""
    rows = [
        f"({_text(name)}, {tables.rows[name]}, {_text(one.name)}, {_text(sql_type(one.kind))})"
        for name, columns in tables.columns.items()
        for one in columns
    ]
    values = f"VALUES {', '.join(rows)}" if rows else "SELECT '', 0, '', '' WHERE false"
    return f'FROM ({values}) AS listing("table", "rows", "column", "type")'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
