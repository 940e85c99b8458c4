"""Tables in the output of commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Columns as wide as their contents, with numbers aligned to the right.

    Example:
        >>> for line in table(["NAME", "COUNT"], [["nut", 7], ["bolt", "1,000"]]):
        ...     print(line)
        NAME  COUNT
        nut       7
        bolt  1,000
    """
    lines = [head, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [
        bool(rows) and all(_is_number(row[place]) for row in rows) for place in range(len(head))
    ]
    for line in lines:
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _is_number(cell: object) -> bool:
    return str(cell) == "-" or str(cell).replace(",", "").replace(".", "", 1).isdecimal()
