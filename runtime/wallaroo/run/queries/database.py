"""SQL on the states of an application, by DuckDB, which sees nothing else of the machine."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow as pa

from wallaroo.engine.stored import SavedState
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.model.application import Application
from wallaroo.run.queries.columns import distinct, quoted, sql_type
from wallaroo.run.queries.tables import Column, StateTable
from wallaroo.system.packages import required

_CONFIGURATION = {
    "python_enable_replacements": "false",  # variables of this process are no tables
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}
_SETTINGS = (
    "SET memory_limit = '1GB'",  # what takes more goes to the disk
    "SET TimeZone = 'UTC'",
    "SET errors_as_json = true",
    "SET enable_external_access = false",
    "SET lock_configuration = true",  # the last one
)
_READING = ("SELECT", "MULTI")  # a PIVOT is several statements
_BATCH = 2_000
"""Rows of a result that are read together."""
_PAUSE_S = 0.05
_Found = TypeVar("_Found")


class StateTables:
    """Tables of the states of an application; a context manager, whose exit deletes them.

    Args:
        application: The application.

    Raises:
        UsageError: DuckDB is not installed.
    """

    def __init__(self, application: Application) -> None:
        self._duckdb = duckdb()
        self._application = application
        self._names = dict(
            zip(application.partitions, distinct(application.partitions), strict=True)
        )
        self._opened = ExitStack()
        self.rows: dict[str, int] = {}
        """Numbers of rows by table."""
        self.columns: dict[str, list[Column]] = {}
        """Columns by table."""
        self.problems: list[str] = []
        """Why entities are missing."""

    def __enter__(self) -> Self:
        scratch = self._opened.enter_context(tempfile.TemporaryDirectory(prefix="wallaroo-"))
        self._scratch = Path(scratch)
        connected = self._duckdb.connect(f"{scratch}/state.duckdb", config=_CONFIGURATION)
        self._connection = self._opened.enter_context(connected)
        self._thread = self._opened.enter_context(ThreadPoolExecutor(1))
        for setting in _SETTINGS:
            self._connection.execute(setting)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._opened.close()

    def fill(self, saved: SavedState, query: str | None) -> None:
        """Make the tables that *query* may name, or all of them, of the entities in *saved*.

        Raises:
            RuntimeFailure: The entities cannot be read.
        """
        chosen = {name for name, table in self._names.items() if _may_name(query, table)}
        partitions = self._application.partitions
        tables = {
            name: StateTable(self._application, partitions[name], self._scratch / str(number))
            for number, name in enumerate(partitions)
            if name in chosen or not chosen
        }
        for name, key, entity in saved.entities():
            if (table := tables.get(name)) is not None:
                table.add(key, entity, saved.time_of(name, key))
        self.problems = [str(one) for one in saved.unloaded if one.state in tables]
        for name, table in tables.items():
            self._create(self._names[name], table)

    @contextmanager
    def result(self, query: str) -> Iterator[Result]:
        """The result of *query*, a single statement that reads.

        Raises:
            UsageError: It is something else, or is wrong.
            RuntimeFailure: It takes more memory or disk than there is.
        """
        try:
            query.encode()
        except UnicodeEncodeError as error:
            msg = f"the query is not Unicode text, at character {error.start + 1}"
            raise UsageError(msg) from error
        with self._told(query):
            statements = self._connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type.name not in _READING:
                msg = "expected a single statement that reads, such as SELECT …"
                raise UsageError(msg)
            relation = self._interruptible(self._connection.sql, self._without_end(query))
            if relation is None:
                msg = "the statement has no result"
                raise UsageError(msg)
            yield Result(relation, self._interruptible)

    def _interruptible(self, call: Callable[..., _Found], *arguments: Any) -> _Found:
        """The result of *call*, which Ctrl-C ends; in the thread of signals, DuckDB defers it."""
        made = self._thread.submit(call, *arguments)
        try:
            return made.result()
        except KeyboardInterrupt:
            while not made.done():  # it may not have begun yet
                self._connection.interrupt()
                wait([made], _PAUSE_S)
            raise

    def _without_end(self, query: str) -> str:
        """*query* without a semicolon and comments that follow it, which DuckDB does not take."""
        statement, _, rest = query.rpartition(";")
        try:
            is_end = not self._connection.extract_statements(rest)
            return statement if is_end and self._connection.extract_statements(statement) else query
        except self._duckdb.Error:
            return query

    def _create(self, name: str, table: StateTable) -> None:
        columns = table.columns()
        types = ", ".join(f"{quoted(one.name)} {sql_type(one.kind)}" for one in columns)
        self._connection.execute(f"CREATE TABLE {quoted(name)} ({types})")
        for batch in table.batches():
            self._connection.register("wallaroo batch", batch)
            with self._told(""):
                self._connection.execute(
                    f'INSERT INTO {quoted(name)} SELECT * FROM "wallaroo batch"'
                )
            self._connection.unregister("wallaroo batch")
        self.rows[name], self.columns[name] = table.rows, columns
        self.problems += table.problems

    @contextmanager
    def _told(self, query: str) -> Iterator[None]:
        """Turn errors of DuckDB in the block into those of this package."""
        duckdb = self._duckdb
        try:
            yield
        except (duckdb.OutOfMemoryException, duckdb.IOException, duckdb.InternalException) as error:
            raise RuntimeFailure(_Told(error).message) from error
        except duckdb.Error as error:
            told = _Told(error)
            if told.place is None and told.is_of_text:
                try:
                    self._connection.execute(query)  # which tells the place
                except duckdb.Error as again:
                    told = _Told(again)
            if told.missing is not None:
                known = ", ".join(map(quoted, self._names.values()))
                told.message = f"there is no table {quoted(told.missing)}; the tables are {known}"
            raise UsageError(told.in_query(query)) from error


class Result:
    """The rows of a query.

    Args:
        relation: DuckDB's.
        call: Calls a function with arguments, until Ctrl-C.
    """

    def __init__(self, relation: Any, call: Callable[..., Any]) -> None:
        self._call = call
        self._relation = call(relation.query, "result", "FROM result")  # whose names differ

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self._relation.columns)

    def texts(self) -> Iterator[list[tuple[str | None, ...]]]:
        """Batches of rows, each with a text for each column; None for NULL."""
        texts = self._query("SELECT COLUMNS(*)::VARCHAR FROM result")
        for batch in self._batches(texts):
            yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def documents(self) -> Iterator[str]:
        """The rows as JSON objects."""
        texts = self._query("SELECT to_json(result) FROM result")
        for batch in self._batches(texts):
            yield from batch.column(0).to_pylist()

    def batches(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The rows as Arrow."""
        reader = self._call(self._relation.to_arrow_reader, _BATCH)
        return reader.schema, self._read(reader)

    def _query(self, query: str) -> Any:
        return self._call(self._relation.query, "result", query)

    def _batches(self, relation: Any) -> Iterator[pa.RecordBatch]:
        return self._read(self._call(relation.to_arrow_reader, _BATCH))

    def _read(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        batches = iter(reader)
        while (batch := self._call(next, batches, None)) is not None:
            yield batch


class _Told:
    """What an error of DuckDB tells."""

    def __init__(self, error: Exception) -> None:
        kind, _, text = str(error).partition(": ")
        self.is_of_text = kind in {"Parser Error", "Binder Error", "Catalog Error"}
        details: Mapping[str, Any] = {}
        if text.startswith("{"):
            details = json.loads(text)
            text = details["exception_message"]
        self.message = " ".join(text.split()) or kind
        self.missing = details.get("name") if details.get("type") == "Table" else None
        """The name of a table that there is not."""
        position = details.get("position")
        self.place = int(position) if self.is_of_text and position is not None else None
        """Bytes of the query before what it is about."""

    def in_query(self, query: str) -> str:
        """What is wrong with *query*, and where."""
        if self.place is None:
            return f"the query: {self.message}"
        before = query.encode("utf-8", "replace")[: self.place].decode(errors="replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return f"the query, line {line}, column {column}: {self.message}"


def duckdb() -> Any:
    """The package.

    Raises:
        UsageError: It is not installed.
    """
    try:
        return required("duckdb", "wallaroo sql", "wallaroo[queries]")
    except ModuleNotFoundError as error:
        raise UsageError(str(error)) from error


def _may_name(query: str | None, table: str) -> bool:
    return query is None or table.replace('"', '""').casefold() in query.casefold()
