"""The tables of injected faults and their effects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Self

from tests.chaos.ledger import Verdict
from tests.chaos.turn import SHAPES, WITH_TOPICS, WITHOUT_TOPICS, Turn

_BEGIN, _END = "<!-- chaos on {}: begin -->", "<!-- chaos on {}: end -->"
PARTS = {"": WITHOUT_TOPICS, " with topics": WITH_TOPICS}
"""The shapes in each table, by what follows the name in the comments around the table."""


@dataclass
class Row:
    """One fault, over all its injections."""

    tried: int = 0
    """How often it was to be injected."""
    injected: int = 0
    failed: int = 0
    """How often the application did not go on afterwards, or something was wrong."""
    messages: int = 0
    lost: int = 0
    doubled: int = 0
    swapped: int = 0
    miscounted: int = 0
    stop_s: float = 0.0
    """Longest time without any output."""
    recover_s: float = 0.0
    """Longest time from the end of the fault until all that was sent by then had come out."""

    def add(self, verdict: Verdict) -> None:
        """Count what was wrong after an injection."""
        self.messages += verdict.messages
        self.lost += len(verdict.lost)
        self.doubled += len(verdict.doubled)
        self.swapped += len(verdict.swapped)
        self.miscounted += len(verdict.miscounted) + len(verdict.torn)

    def cells(self) -> list[str]:
        """What the table shows of it."""
        wrong = (self.lost, self.doubled, self.swapped, self.miscounted)
        times = (self.stop_s, self.recover_s)
        return [
            f"{self.injected:,}",
            f"{self.messages:,}",
            *(f"{count:,}" for count in wrong),
            f"{self.failed:,}",
            *(f"{seconds:.1f} s" for seconds in times),
        ]


@dataclass
class Spell:
    """The time that a run gave to one turn, and what happened in it."""

    seed: int
    keys: int
    """Keys that had state at the start."""
    rate: int
    """Messages a second of each sender."""
    hours: float = 0.0
    outputs: int = 0
    repeated: int = 0
    """Outputs that came again and were dropped by their numbers."""
    starts: int = 0
    """How often `wallaroo` was started."""
    commits: int = 0
    """How often Spark committed the state."""
    load: float = 0.0
    """Highest load average over 15 min after a fault."""
    faults: int = 0
    """How many were injected."""
    messages: int = 0
    """Those that were judged."""
    confirmed: int = 0
    """Messages whose history Porcupine has found right."""
    commit: str = ""
    """What was tested."""


@dataclass
class Report:
    """All spells and rows, of one run or of several."""

    rows: dict[Turn, dict[str, Row]] = field(default_factory=dict)
    spells: dict[Turn, list[Spell]] = field(default_factory=dict)

    def row(self, turn: Turn, fault: str) -> Row:
        """The row of *fault* in *turn*."""
        return self.rows.setdefault(turn, {}).setdefault(fault, Row())

    def tried(self, counts: Callable[[Turn], bool]) -> Counter[str]:
        """How often each fault was to be injected in the turns that count."""
        found: Counter[str] = Counter()
        for turn in filter(counts, self.rows):
            found.update({name: row.tried for name, row in self.rows[turn].items()})
        return found

    def judged(self, turn: Turn) -> tuple[int, int]:
        """Faults that were injected in *turn*, and messages that were judged."""
        rows = self.rows.get(turn, {}).values()
        return sum(row.injected for row in rows), sum(row.messages for row in rows)

    def tables(self, order: list[str], cores: int, shapes: Collection[str] = SHAPES) -> str:
        """What was done in *shapes*, as Markdown; the faults in *order*.

        Empty if nothing was.
        """
        turns = [turn for turn in self.spells if turn.shape in shapes]
        if not turns:
            return ""
        return "\n".join(
            [
                f"On {cores} cores:",
                "",
                "| commit | application | shape | hours | faults | messages | confirmed by "
                "Porcupine | outputs dropped by their numbers | starts | commits of state "
                "| keys with state | load average | seeds |",
                "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
                *self._turns(turns),
                "",
                "| fault | injected | messages | lost | doubled | out of order | wrong state "
                "| failed | longest stop | until all was out |",
                "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
                *self._faults(turns, order),
            ]
        )

    def write(self, file: Path) -> None:
        """Keep it as *file*, for `read`."""
        turns = [
            {
                "turn": asdict(turn),
                "spells": [asdict(spell) for spell in spells],
                "rows": {
                    name: _nonzero(row)
                    for name, row in self.rows.get(turn, {}).items()
                    if row.tried
                },
            }
            for turn, spells in self.spells.items()
        ]
        file.write_text(json.dumps(turns, indent=1))

    @classmethod
    def read(cls, file: Path) -> Self:
        """What *file* has of earlier runs; nothing if it does not exist."""
        report = cls()
        for kept in json.loads(file.read_text()) if file.exists() else []:
            turn = Turn(**kept["turn"])
            report.spells[turn] = [Spell(**spell) for spell in kept["spells"]]
            report.rows[turn] = {name: Row(**row) for name, row in kept["rows"].items()}
        return report

    def _turns(self, turns: list[Turn]) -> list[str]:
        """What was done in each turn, the latest commit first."""
        found: dict[str, dict[Turn, list[Spell]]] = {}
        for turn in turns:
            for spell in self.spells[turn]:
                found.setdefault(spell.commit, {}).setdefault(turn, []).append(spell)
        return [
            _line(commit, turn, spells)
            for commit in reversed(found)
            for turn, spells in found[commit].items()
        ]

    def _faults(self, turns: list[Turn], order: list[str]) -> list[str]:
        lines = []
        for name in order:
            found = (self.rows.get(turn, {}).get(name) for turn in turns)
            rows = [row for row in found if row is not None and row.tried]
            if rows:
                lines.append(f"| {name} | {' | '.join(_together(rows).cells())} |")
        return lines


def _line(commit: str, turn: Turn, spells: list[Spell]) -> str:
    cells = [
        commit,
        turn.application,
        turn.shape,
        f"{sum(spell.hours for spell in spells):.2f}",
        *(
            f"{sum(getattr(spell, name) for spell in spells):,}"
            for name in ("faults", "messages", "confirmed", "repeated", "starts", "commits")
        ),
        f"{max(spell.keys for spell in spells):,}",
        f"{max(spell.load for spell in spells):.0f}",
        ", ".join(str(spell.seed) for spell in spells),
    ]
    return f"| {' | '.join(cells)} |"


def write(tables: str, page: Path, name: str) -> None:
    """Put *tables* between the marks for *name* in *page*."""
    text, begin, end = page.read_text(), _BEGIN.format(name), _END.format(name)
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    page.write_text(f"{head}{begin}\n{tables}\n{end}{tail}")


def _nonzero(row: Row) -> dict[str, float]:
    """The fields of *row* that are not zero."""
    return {name: value for name, value in asdict(row).items() if value}


def _together(rows: list[Row]) -> Row:
    """One row for all: times are the longest ones."""
    combined = Row()
    for one in fields(Row):
        values = [getattr(row, one.name) for row in rows]
        combine = max if one.name.endswith("_s") else sum
        setattr(combined, one.name, combine(values))
    return combined
