"""Results of queries: as a table to read, as CSV, as JSON and as a file of Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

from wallaroo.errors import UsageError, reason_of
from wallaroo.run.queries.database import Result
from wallaroo.system.printable import printable, printable_json

Form = Literal["table", "csv", "json", "parquet"]
_WIDEST = 60
"""Characters of a cell that a table shows."""
_SPECIAL = frozenset('",\r\n')
_ENDINGS: dict[str, Form] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}


def form_of(file: Path | None) -> Form:
    """The format that the name of *file* tells."""
    return "table" if file is None else _ENDINGS.get(file.suffix.lower(), "table")


def write_text(result: Result, form: Form, out: TextIO) -> None:
    """Write *result* in a format of text."""
    write = {"table": _table_lines, "csv": _csv_lines, "json": _json_lines}[form]
    out.writelines(f"{line}\n" for line in write(result))


def write_parquet(result: Result, file: Path) -> None:
    """Write *result* to *file*.

    Raises:
        UsageError: It has a type that Parquet does not have.
    """
    import pyarrow as pa
    from pyarrow import parquet

    schema, batches = result.batches()
    try:
        with parquet.ParquetWriter(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except pa.ArrowNotImplementedError as error:
        types = ", ".join(f"{field.name} ({field.type})" for field in schema)
        msg = (
            f"Parquet has no type for a column of {types}: {error}; cast it, as in "
            "epoch(duration) or column::VARCHAR"
        )
        raise UsageError(msg) from error


@contextmanager
def replaced(file: Path) -> Iterator[Path]:
    """A file that takes the place of *file* when the block ends.

    Raises:
        UsageError: It cannot be created.
    """
    fresh = file.with_name(f".{file.name}.new")
    try:
        fresh.touch()
    except OSError as error:
        msg = f"{file} cannot be written: {reason_of(error)}"
        raise UsageError(msg) from error
    try:
        yield fresh
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)


def _table_lines(result: Result) -> Iterator[str]:
    from rich.cells import cell_len

    head = list(map(printable, result.names))
    widths = list(map(cell_len, head))

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)
        )
        return "  ".join(padded).rstrip()

    begun = False
    for rows in result.texts():
        shown = [list(map(_cell, row)) for row in rows]
        widths = [
            max([width, *map(cell_len, column)])
            for width, column in zip(widths, zip(*shown, strict=True), strict=True)
        ]
        if not begun:
            begun = True
            yield line(head)
            yield line(["-" * width for width in widths])
        yield from map(line, shown)
    if not begun:
        yield line(head)
        yield line(["-" * width for width in widths])


def _cell(text: str | None) -> str:
    shown = "NULL" if text is None else printable(text[: _WIDEST + 1])
    return shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 1]}…"


def _csv_lines(result: Result) -> Iterator[str]:
    yield ",".join(map(_csv_field, result.names))
    for rows in result.texts():
        yield from (",".join(map(_csv_field, row)) for row in rows)


def _csv_field(text: str | None) -> str:
    """*text* in CSV, in which only an empty text has quotation marks, and NULL has none."""
    if text is None:
        return ""
    if text and _SPECIAL.isdisjoint(text):
        return text
    return '"{}"'.format(text.replace('"', '""'))


def _json_lines(result: Result) -> Iterator[str]:
    return map(printable_json, result.documents())
