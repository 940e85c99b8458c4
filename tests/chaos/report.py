"""The table of what was injected and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

_BEGIN, _END = "<!-- chaos on {}: begin -->", "<!-- chaos on {}: end -->"


@dataclass
class Row:
    """One fault, over all its injections."""

    injected: int = 0
    messages: int = 0
    lost: int = 0
    doubled: int = 0
    swapped: int = 0
    miscounted: int = 0
    stop_s: float = 0.0
    """Longest time without any output."""
    recover_s: float = 0.0
    """Longest time from the end of the fault until all that was sent by then had come out."""


@dataclass
class Report:
    """The rows by fault, and the run that they are of."""

    rows: dict[str, Row] = field(default_factory=dict)

    def table(self, heading: str) -> str:
        """As Markdown."""
        lines = [
            heading,
            "",
            "| fault | injected | messages | lost | doubled | out of order | wrong state "
            "| longest stop | until all was out |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for name, row in self.rows.items():
            counts = (row.lost, row.doubled, row.swapped, row.miscounted)
            lines.append(
                f"| {name} | {row.injected} | {row.messages:,} | "
                + " | ".join(map(str, counts))
                + f" | {row.stop_s:.1f} s | {row.recover_s:.1f} s |"
            )
        return "\n".join(lines)


def write(table: str, page: Path, engine: str) -> None:
    """Put *table* between the marks for *engine* in *page*."""
    text, begin, end = page.read_text(), _BEGIN.format(engine), _END.format(engine)
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    page.write_text(f"{head}{begin}\n{table}\n{end}{tail}")
