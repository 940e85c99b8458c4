"""One table of a database, and beside it the number of the last output that is in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from wallaroo.connectors.sql.resolve import SQLSink
from wallaroo.errors import RuntimeFailure
from wallaroo.system.failpoints import fault

_OUTPUTS = "wallaroo_outputs"
_REFUSED = "wallaroo_refused"
_NAME_LETTERS = 255
_REASON_LETTERS = 500

Row = tuple[int, Mapping[str, Any]]
"""Number of an output, and its columns."""


class OtherWriter(RuntimeFailure):
    """Another process has written under the same name."""


class SinkTable:
    """Writes rows and numbers over one connection.

    Args:
        engine: Connects to the database.
        sink: Which table, and how.
        numbering: Name under which the number is stored.

    Raises:
        RuntimeFailure: The table or a column of the key is missing, or rows cannot be updated.
        DBAPIError: The database cannot be used now.
    """

    def __init__(self, engine: sa.Engine, sink: SQLSink, numbering: str) -> None:
        self._sink = sink
        self._numbering = numbering
        self._key = sink.key
        own = sa.MetaData()
        name = sa.Column("sink", sa.String(_NAME_LETTERS), primary_key=True)
        self._outputs = sa.Table(
            _OUTPUTS, own, name, sa.Column("next", sa.BigInteger, nullable=False)
        )
        self._refused = sa.Table(
            _REFUSED,
            own,
            sa.Column("sink", sa.String(_NAME_LETTERS), primary_key=True),
            sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("reason", sa.String(_REASON_LETTERS), nullable=False),
        )
        self._connection = engine.connect()
        try:
            self._table = self._reflected()
            self._insert = self._insertion()
            own.create_all(self._connection)
            self._connection.commit()
            self.is_new = False
            """Whether the database knew nothing of the sink."""
            self.next = self._noted()
            """Number of the next output, from 0 on."""
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def refused(self) -> dict[int, str]:
        """Outputs that the last transaction has not written, and why."""
        of_sink = self._refused.c.sink == self._numbering
        with self._connection.begin():
            rows = self._connection.execute(
                sa.select(self._refused.c.number, self._refused.c.reason).where(of_sink)
            )
            return {row.number: row.reason for row in rows}

    def write(self, end: int, rows: Sequence[Row], *, sets_aside: bool) -> dict[int, str]:
        """Write *rows*, and *end* as the number of the next output, in one transaction.

        Args:
            end: Number after the last of the rows.
            rows: The rows.
            sets_aside: Whether to leave out rows that the database refuses.

        Returns:
            The numbers of rows that are left out, and why.

        Raises:
            OtherWriter: Another process has written meanwhile.
            DBAPIError: Nothing is written.
        """
        if not all(name in self._table.c for _, row in rows for name in row):
            self._table = self._reflected()  # it may have been altered
        with self._connection.begin():
            noted = self._connection.execute(
                sa.update(self._outputs)
                .where(self._outputs.c.sink == self._numbering, self._outputs.c.next == self.next)
                .values(next=end)
            )
            if noted.rowcount != 1:
                msg = f"another process writes to {self._table.fullname} as {self._numbering}"
                raise OtherWriter(msg)
            fault("sql-sink-after-number")
            refused: dict[int, str] = {}
            self._write(rows, refused if sets_aside else None)
            self._connection.execute(
                sa.delete(self._refused).where(self._refused.c.sink == self._numbering)
            )
            if refused:
                self._connection.execute(
                    sa.insert(self._refused),
                    [
                        {"sink": self._numbering, "number": number, "reason": reason}
                        for number, reason in refused.items()
                    ],
                )
            fault("sql-sink-before-commit")
        fault("sql-sink-after-commit")
        self.next = end
        return refused

    def _write(self, rows: Sequence[Row], refused: dict[int, str] | None) -> None:
        """Insert *rows*, in halves to find the *refused* ones, if these can be noted."""
        if not rows:
            return
        try:
            with self._connection.begin_nested():
                self._insert_rows(rows)
        except Exception as error:
            if refused is None or not _is_refusal(error):
                raise
            if len(rows) == 1:
                refused[rows[0][0]] = message_of(error)[:_REASON_LETTERS]
                return
            middle = len(rows) // 2
            self._write(rows[:middle], refused)
            self._write(rows[middle:], refused)

    def _insert_rows(self, rows: Sequence[Row]) -> None:
        """Insert *rows*, those with the same columns together, in order."""
        gathered: list[Mapping[str, Any]] = []
        for _, row in rows:
            self._check(row)
            if gathered and row.keys() != gathered[0].keys():
                self._execute(gathered)
                gathered = []
            gathered.append(row)
        self._execute(gathered)

    def _execute(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self._key:  # of rows with the same key, the last one counts, in its place
            by_key: dict[tuple[str, ...], Mapping[str, Any]] = {}
            for row in rows:
                key = tuple(repr(row.get(name)) for name in self._key)
                by_key.pop(key, None)
                by_key[key] = row
            rows = list(by_key.values())
        statement = self._insert
        if self._key:
            statement = self._updating(rows[0])
        if not rows[0]:
            for _ in rows:
                self._connection.execute(sa.insert(self._table).values())
            return
        self._connection.execute(statement, [dict(row) for row in rows])

    def _check(self, row: Mapping[str, Any]) -> None:
        """Refuse columns that the table has not, and values that only a column of JSON takes.

        Raises:
            ValueError: There is a column that the table has not, or none of the key.
            TypeError: There is such a value.
        """
        for name, value in row.items():
            column = self._table.c.get(name)
            if column is None:
                msg = f"table {self._table.fullname} has no column {name!r}"
                raise ValueError(msg)
            if isinstance(value, (dict, list)) and not isinstance(column.type, (sa.JSON, sa.ARRAY)):
                msg = f"column {name!r} takes no {type(value).__name__}"
                raise TypeError(msg)
        for name in self._key:
            if row.get(name) is None:
                msg = f"the row has no value for {name!r}, which is part of the key"
                raise ValueError(msg)

    def _noted(self) -> int:
        """The number of the next output; 0 is noted if there is none."""
        mine = self._outputs.c.sink == self._numbering
        with self._connection.begin():
            found = self._connection.execute(sa.select(self._outputs.c.next).where(mine)).scalar()
            if found is None:
                self.is_new = True
                self._connection.execute(
                    sa.insert(self._outputs).values(sink=self._numbering, next=0)
                )
        return int(found or 0)

    def _reflected(self) -> sa.Table:
        sink = self._sink
        try:
            table = sa.Table(
                sink.table, sa.MetaData(), schema=sink.schema, autoload_with=self._connection
            )
        except sa.exc.NoSuchTableError:
            msg = f"there is no {sink.where}; create it"
            raise RuntimeFailure(msg) from None
        self._connection.rollback()
        for name in sink.key:
            if name not in table.c:
                msg = f"key has {name!r}, which is not a column of {sink.where}"
                raise RuntimeFailure(msg)
        return table

    def _insertion(self) -> Any:
        dialect = self._connection.dialect.name
        if not self._key:
            return sa.insert(self._table)
        made = {
            "postgresql": postgresql.insert,
            "sqlite": sqlite.insert,
            "mysql": mysql.insert,
            "mariadb": mysql.insert,
        }.get(dialect)
        if made is None:
            msg = f"rows of {dialect} cannot be updated by a key here; leave out `key`"
            raise RuntimeFailure(msg)
        return made(self._table)

    def _updating(self, row: Mapping[str, Any]) -> Any:
        """The statement that inserts rows with the columns of *row*, or updates others."""
        others = [name for name in row if name not in self._key]
        if isinstance(self._insert, mysql.Insert):
            names = others or list(self._key)
            return self._insert.on_duplicate_key_update(
                {name: self._insert.inserted[name] for name in names}
            )
        if not others:
            return self._insert.on_conflict_do_nothing(index_elements=list(self._key))
        return self._insert.on_conflict_do_update(
            index_elements=list(self._key),
            set_={name: self._insert.excluded[name] for name in others},
        )


_REFUSALS = (
    *(sa.exc.IntegrityError, sa.exc.DataError),
    *(ValueError, TypeError, OverflowError),
)
_UNKNOWN_CLASS = re.compile(r"adapt|bind", re.IGNORECASE)
"""What drivers say of values of classes that they do not know."""


_OF_A_ROW = {
    *("42846", "42804"),  # a value that cannot be converted to the type of its column
    "428C9",  # a value for a column that the database computes
    "44000",  # a row that a view does not show
    *("54000", "54011"),  # a value that is too large for an index, or a row for a page
    *("P0001", "P0004"),  # what a trigger raises
}
"""States of SQL for which a row is the cause, besides `_REFUSALS`; see PostgreSQL, appendix A."""


def _is_refusal(error: Exception) -> bool:
    """Whether something is wrong with a row, and will be whenever it is written."""
    if _state_of(error) in _OF_A_ROW:
        return True
    if isinstance(error, (sa.exc.ProgrammingError, sa.exc.InterfaceError)):
        return _UNKNOWN_CLASS.search(str(error.orig)) is not None
    return isinstance(error, _REFUSALS) or type(error) is sa.exc.StatementError


def _state_of(error: Exception) -> str | None:
    """The state of SQL that *error* has, in PostgreSQL's drivers."""
    cause = getattr(error, "orig", None)
    state: str | None = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state


def message_of(error: BaseException) -> str:
    """What *error* says, on one line, without the statement and its values."""
    text = str(getattr(error, "orig", None) or error) or type(error).__name__
    return " ".join(text.split())
