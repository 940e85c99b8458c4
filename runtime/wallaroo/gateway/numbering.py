"""Numbers of sources and sinks in the log, which mean the same names as when they were written.

Messages and outputs have the numbers that their sources and sinks have in the application. When
pipelines are added, removed, or put in another order, these change. So the log notes the names at
each opening, and what is read of it is given the numbers of the application that runs now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.entries import Delivered, Messages, Piece, Published
from wallaroo.metrics.catalogue import LATENCY
from wallaroo.system.printable import counted
from wallaroo.wire.records import Block

TAKEN = "taken"
"""In the place of a metric: outputs that receivers have taken, by sink."""
_KEEP_SOURCE = "call its pipeline {} again"
_KEEP_SINK = ".named({}) on the sink keeps it"


class Renumbering(NamedTuple):
    """New numbers of sources and sinks, by the old ones; those that are the same are left out.

    Names may take the place of new numbers, to be shown.
    """

    sources: Mapping[int, Any] = {}
    sinks: Mapping[int, Any] = {}

    @classmethod
    def naming(cls, names: Mapping[str, Sequence[str]]) -> Renumbering:
        """The names of sources and sinks in place of their numbers, according to the log's *names*.

        Example:
            >>> named = Renumbering.naming({"sources": ["orders"], "sinks": ["lines"]})
            >>> named.noted({"sent": [0, 7]})
            {'sent': ['lines', 7]}
        """
        return cls(*(dict(enumerate(names.get(kind, ()))) for kind in ("sources", "sinks")))

    @property
    def changes(self) -> bool:
        """Whether any number is another one."""
        return bool(self.sources or self.sinks)

    def messages(self, entry: Messages) -> Messages:
        """*entry* with new numbers."""
        if not self.sources:
            return entry
        more = dict(entry.more)
        if "stream" in more:
            (more["stream"],) = _rows([more["stream"]], self.sources)
        for name in more.keys() & {"held", "requests"}:
            more[name] = _rows(more[name], self.sources)
        return entry._replace(source=_number(entry.source, self.sources), more=more)

    def block(self, block: Block) -> Block:
        """*block* with new numbers."""
        if not self.sources:
            return block
        held = tuple((_number(of, self.sources), ns) for of, ns in block.held)
        return block._replace(source=_number(block.source, self.sources), held=held)

    def piece(self, piece: Piece) -> Piece:
        """*piece* with new numbers."""
        return piece._replace(sink=_number(piece.sink, self.sinks)) if self.sinks else piece

    def delivered(self, entry: Delivered) -> Delivered:
        """*entry* with new numbers."""
        return entry._replace(sink=_number(entry.sink, self.sinks)) if self.sinks else entry

    def published(self, entry: Published) -> Published:
        """*entry* with new numbers."""
        if not self.changes:
            return entry
        arrivals = entry.tally.metrics.arrivals
        entry.tally.metrics.arrivals = {
            (_number(source, self.sources), at): count for (source, at), count in arrivals.items()
        }
        outputs = _keys(entry.more["outputs"], self.sinks)
        return entry._replace(more={**entry.more, "outputs": outputs})

    def noted(self, values: dict[str, Any]) -> dict[str, Any]:
        """What was noted, with new numbers."""
        if not self.changes:
            return values
        values = dict(values)
        if "held" in values:
            values["held"] = _rows(values["held"], self.sources)
        if "forget" in values:
            (values["forget"],) = _rows([values["forget"]], self.sources)
        for name in values.keys() & {"sent", "numbered", "delivered"}:
            (values[name],) = _rows([values[name]], self.sinks)
        for name in values.keys() & {"shifts", "outputs"}:
            values[name] = _keys(values[name], self.sinks)
        return values

    def tables(self, tables: dict[str, Any]) -> dict[str, Any]:
        """The tables of a snapshot, with new numbers."""
        if not self.changes:
            return tables
        journal, outbox = dict(tables["journal"]), dict(tables["outbox"])
        journal["accepted"] = _keys(journal["accepted"], self.sources)
        for name in ("streams", "requests"):
            journal[name] = _rows(journal[name], self.sources)
        if held := journal.get("held"):
            journal["held"] = {**held, "of": _rows(held["of"], self.sources)}
        outbox["sinks"] = _keys(outbox["sinks"], self.sinks)
        of_metrics = {LATENCY.name: self.sources, TAKEN: self.sinks}
        figures = [
            [name, *_rows([labels], of_metrics.get(name, {})), value]
            for name, labels, value in outbox["metrics"]["figures"]
        ]
        outbox["metrics"] = {**outbox["metrics"], "figures": figures}
        return {**tables, "journal": journal, "outbox": outbox}


class Numbering:
    """The names of sources and sinks by number, and what numbers in the log were changed to.

    Args:
        sources: Names of the application's sources; None if it has all that are in the log.
        sinks: Names of its sinks, likewise.

    Example:
        >>> numbering = Numbering(["new", "old"], ["sink"])
        >>> numbering.note({"sources": ["old", "gone"], "sinks": ["sink"]}, 700)
        >>> numbering.last.sources, numbering.gone("sources")
        ({0: 1, 1: 2}, {2: 'gone'})
    """

    def __init__(
        self, sources: Sequence[str] | None = None, sinks: Sequence[str] | None = None
    ) -> None:
        known = {"sources": sources, "sinks": sinks}
        self._names = {kind: [*(names or ())] for kind, names in known.items()}
        """The application's, followed by those in the log that it lacks."""
        self._known = {kind: None if names is None else len(names) for kind, names in known.items()}
        self.last = Renumbering()
        """The one that applies to the records that are read."""
        self._from = [0]
        self._renumberings = [self.last]
        """Each with the address from which on it applies."""

    @property
    def changes(self) -> bool:
        """Whether some records have other numbers than the present ones."""
        return len(self._renumberings) > 1

    @property
    def names(self) -> dict[str, list[str]]:
        """What the log is to note, for `note`."""
        return {kind: [*names] for kind, names in self._names.items()}

    def note(self, noted: Mapping[str, Any], address: int) -> None:
        """Take over the names in the log, which hold for the records from *address* on."""
        found = {}
        for kind, names in self._names.items():
            then = noted.get(kind, ())
            names.extend(name for name in then if name not in names)
            now = [names.index(name) for name in then]
            found[kind] = {old: new for old, new in enumerate(now) if old != new}
        if (renumbering := Renumbering(**found)) != self.last:
            self.last = renumbering
            self._from.append(address)
            self._renumberings.append(renumbering)

    def opened(self, address: int) -> None:
        """Note that records from *address* on have the present numbers."""
        self.note(self._names, address)

    def at(self, address: int) -> Renumbering:
        """The renumbering of the record at *address*."""
        return self._renumberings[bisect_right(self._from, address) - 1]

    def number(self, kind: str, name: str) -> int | None:
        """The number of a source or sink of the application by its name; None if it has none."""
        names = self._names[kind][: self._known[kind]]
        return names.index(name) if name in names else None

    def gone(self, kind: str) -> dict[int, str]:
        """The `sources` or `sinks` that the log has and the application lacks, by number."""
        known = self._known[kind]
        return {} if known is None else dict(enumerate(self._names[kind][known:], known))

    def check_gone(
        self, log: Path, messages: Mapping[int, int], outputs: Mapping[int, int]
    ) -> None:
        """Refuse an application that lacks a source or sink for which something waits.

        Args:
            log: The directory of the log.
            messages: How many messages wait there, by source.
            outputs: How many outputs wait there, by sink.

        Raises:
            RuntimeFailure: There is one.
        """
        for kind, waiting, noun, whose, keep, done in (
            ("sources", messages, "message", "of the source", _KEEP_SOURCE, "processed"),
            ("sinks", outputs, "output", "for the sink", _KEEP_SINK, "delivered"),
        ):
            for number, name in self.gone(kind).items():
                if count := waiting.get(number):
                    msg = (
                        f"{log} has {counted(count, noun)} {whose} {name!r} to be {done}, and the "
                        "application has none of that name; if only the name has changed, "
                        f"{keep.format(repr(name))}; otherwise start it with {name!r} until all "
                        f"are {done} (--until-done), or give another --state-dir"
                    )
                    raise RuntimeFailure(msg)


def _number(old: int, new: Mapping[int, Any]) -> Any:
    return new.get(old, old)


def _rows(rows: Iterable[Sequence[Any]], new: Mapping[int, Any]) -> list[list[Any]]:
    """Rows that begin with a number."""
    return [[_number(row[0], new), *row[1:]] if row else [] for row in rows]


def _keys(values: Mapping[str, Any], new: Mapping[int, Any]) -> dict[str, Any]:
    return {str(_number(int(old), new)): value for old, value in values.items()}
