"""From rows to a table of Arrow, without the rows that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

_MISFITS = (pa.ArrowException, ValueError, TypeError, OverflowError)


def table_of(
    rows: Mapping[int, Mapping[str, Any]], schema: pa.Schema | None
) -> tuple[pa.Table | None, dict[int, str]]:
    """Return *rows* as a table.

    Args:
        rows: Values by column, by the number of the row.
        schema: Names and types of the columns; None to find them out: the types of a column are
            then those that all its values fit, or that of its first value.

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
    try:
        made = pa.array(list(values.values()), None if field is None else field.type)
    except _MISFITS:
        kind = _type_of_first(values) if field is None else field.type
    else:
        return made.type, nullable
    for number, value in values.items():
        try:
            pa.array([value], kind)
        except _MISFITS as error:
            said = " ".join(str(error).split())
            refused[number] = f"column {name!r} is of type {kind}: {said}"
    return kind, nullable


def _type_of_first(values: Mapping[int, Any]) -> pa.DataType:
    """The type of the first value that has one."""
    for value in values.values():
        if value is not None:
            try:
                return pa.array([value]).type
            except _MISFITS:
                continue
    return pa.null()
