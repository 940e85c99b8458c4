"""From rows to a table of Arrow, without the rows that do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from wallaroo.connectors.parquet.exactness import is_kept, is_of_python, keeps_all
from wallaroo.connectors.parquet.resolve import problem_of_type
from wallaroo.user_code.exceptions import short_repr

_MISFITS = (pa.ArrowException, ValueError, TypeError, OverflowError)


def table_of(
    rows: Mapping[int, Mapping[str, Any]], schema: pa.Schema | None
) -> tuple[pa.Table | None, dict[int, str]]:
    """Return *rows* as a table.

    Args:
        rows: Values by column, by the number of the row.
        schema: Names and types of the columns; None to find them out: the type of a column is then
            one that all its values fit, or else one for those that fit the values before them.

    Returns:
        The table, None without rows; and the numbers of rows that do not fit, and why.

    Example:
        >>> table, refused = table_of({7: {"a": 1}, 8: {"a": "x"}, 9: {"a": 2, "b": 0.5}}, None)
        >>> table.to_pylist(), refused.keys()
        ([{'a': 1, 'b': None}, {'a': 2, 'b': 0.5}], dict_keys([8]))
    """
    refused = {number: "the row has no columns" for number, row in rows.items() if not row}
    names = list(schema.names if schema is not None else _names(rows))
    if schema is not None:
        for number, row in rows.items():
            unknown = [name for name in row if name not in names]
            if unknown:
                refused[number] = f"the schema has no column {unknown[0]!r}"
    columns: dict[str, tuple[pa.DataType, bool]] = {}
    for name in names:
        field = None if schema is None else schema.field(name)
        columns[name] = _check(name, rows, field, refused)
    kept = [row for number, row in rows.items() if number not in refused]
    if not kept:
        return None, refused
    fields = [pa.field(name, kind, nullable) for name, (kind, nullable) in columns.items()]
    found = pa.schema(fields) if schema is None else schema
    arrays = [
        pa.array([row.get(name) for row in kept], kind) for name, (kind, _) in columns.items()
    ]
    return pa.Table.from_arrays(arrays, schema=found), refused


def _names(rows: Mapping[int, Mapping[str, Any]]) -> dict[str, None]:
    """The names of all columns, in the order of their first values."""
    return {name: None for row in rows.values() for name in row}


def _check(
    name: str,
    rows: Mapping[int, Mapping[str, Any]],
    field: pa.Field | None,
    refused: dict[int, str],
) -> tuple[pa.DataType, bool]:
    """Find out the type of a column, and whether it may be empty; note what does not fit."""
    values = {number: row.get(name) for number, row in rows.items() if number not in refused}
    nullable = field is None or field.nullable
    if not nullable:
        for number, value in values.items():
            if value is None:
                refused[number] = f"column {name!r} has no value"
    kind = _type_of(list(values.values())) if field is None else field.type
    if field is None and (reason := problem_of_type(kind)) is not None:  # struct<>, of {}
        for number, value in values.items():
            if value is not None:
                refused[number] = f"column {name!r} is of type {kind}: {reason}"
        return pa.null(), nullable
    for number, problem in _problems(values, kind, declared=field is not None):
        refused[number] = f"column {name!r} is of type {kind}{problem}"
    return kind, nullable


def _problems(
    values: Mapping[int, Any], kind: pa.DataType, *, declared: bool
) -> Iterator[tuple[int, str]]:
    """The numbers of the *values* that a column of type *kind* cannot keep, and why."""
    given = list(values.values())
    try:
        made = pa.array(given, kind)
        kept = None if keeps_all(given, kind) else made.to_pylist()
    except _MISFITS:
        for number, value in values.items():
            if problem := _problem(value, kind, declared=declared):
                yield number, problem
        return
    for number, value, other in () if kept is None else zip(values, given, kept, strict=True):
        if not is_kept(value, other, kind, declared=declared):
            yield number, _changes(value, other)


def _problem(value: Any, kind: pa.DataType, *, declared: bool) -> str:
    try:
        made = pa.array([value], kind)
    except _MISFITS as error:
        return ": " + " ".join(str(error).split())
    try:
        (kept,) = made.to_pylist()
    except _MISFITS:  # such as nanoseconds, which Python's own times lack
        return "" if declared or not is_of_python(value) else f", which is not {value!r:.100}"
    return "" if is_kept(value, kept, kind, declared=declared) else _changes(value, kept)


def _changes(value: Any, kept: Any) -> str:
    return f", which would change {short_repr(value)} to {short_repr(kept)}"


def _type_of(values: Sequence[Any]) -> pa.DataType:
    """A type for *values*, or for those that fit the ones before them."""
    try:
        return pa.array(values).type
    except _MISFITS:
        pass
    examples: dict[pa.DataType, Any] = {}
    found = pa.null()
    for value in values:
        try:
            own = pa.array([value]).type
            if own not in examples:
                found = pa.array([*examples.values(), value]).type
                examples[own] = value
        except _MISFITS:
            continue
    return found
