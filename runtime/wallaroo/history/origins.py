"""The messages that made an output of a sink, and those that came too late for their windows."""

from __future__ import annotations

import ast
import contextlib
import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from wallaroo.engine.stored import Committed
from wallaroo.errors import UsageError
from wallaroo.gateway.log.records import MOST_NUMBER, Record
from wallaroo.history.changes import Arrival, Change, all_of
from wallaroo.history.publications import Numbered, Publication, Publications
from wallaroo.history.replay import Replay
from wallaroo.history.rerun import Rerun
from wallaroo.model.application import Application
from wallaroo.model.endpoints import Sink
from wallaroo.system.printable import counted
from wallaroo.user_code.exceptions import short_repr

_SHOWN = 200
"""Characters of an output that are shown."""


class WantedOutput(NamedTuple):
    """Which output of a sink is meant."""

    sink: str
    number: int | None
    """Its number; None for the latest one with this content."""
    content: bytes = b""

    @classmethod
    def parse(cls, text: str, application: Application) -> Self:
        """The output that *text* says: a sink of *application*, and a number or content.

        Raises:
            UsageError: It says none, or of another sink.
        """
        names = [sink.name for sink in application.output_sinks]
        fits = [name for name in names if text.startswith(f"{name}:")]
        if not fits:
            name = text.rpartition(":")[0] or text
            letters = application.dead_letters
            if letters is not None and name == letters.sink.name:
                msg = f"outputs of sink {name!r} are dead letters, which name their messages"
                raise UsageError(msg)
            msg = (
                f"{text!r} is not SINK:NUMBER or SINK:TEXT, with a sink of the application, which "
                f"are: {', '.join(map(repr, names))}"
            )
            raise UsageError(msg)
        name = max(fits, key=len)
        what = text[len(name) + 1 :]
        if _NUMBER.fullmatch(what):
            return cls(name, int(what.replace(",", "")))
        return cls(name, None, _content(what))

    def __str__(self) -> str:
        what = short_repr(self.content) if self.number is None else f"{self.number:,}"
        return f"output {what} of sink {self.sink!r}"


class FoundOutput(NamedTuple):
    """An output in a log."""

    sink: str
    number: int
    """Its number in the log."""
    output: bytes
    """What its receiver gets."""
    record: int
    """Number of the record with which it was published."""
    shift: int = 0
    """By how much its number is lower now."""

    def __str__(self) -> str:
        number, output = self.number - self.shift, short_repr(self.output, _SHOWN)
        return f"output {number:,} of sink {self.sink!r}: {output}"


@dataclass(frozen=True)
class Origin:
    """What made an output."""

    ways: Sequence[Sequence[Change]]
    """What each message changed on the way to it; of several, any may be the one that made it."""
    count: int
    """How many messages there are; some of them may be left out in `ways`."""
    is_other: bool
    """Whether they make another output now."""


_NUMBER = re.compile(r"[1-9][0-9]*(,[0-9]{3})*")


def _content(text: str) -> bytes:
    """Bytes that *text* is, or shows as Python does."""
    with contextlib.suppress(ValueError, SyntaxError):
        found = ast.literal_eval(text)
        if isinstance(found, bytes):
            return found
    return text.encode("utf-8", "surrogateescape")


def find_output(
    wanted: WantedOutput, read: Callable[[int], Iterable[Record]], application: Application
) -> FoundOutput:
    """The latest output that is *wanted*.

    Args:
        wanted: The output, by the number that it has now: if outputs were renumbered, those that
            were waiting then have lower numbers than in the log.
        read: Reads the log up to the record with a number.
        application: The application, which has the sink.

    Raises:
        UsageError: The log does not have it.
    """
    value = _sink(application, wanted.sink).value
    number, shift, end, there = wanted.number, 0, MOST_NUMBER, ""
    while True:
        publications, renewal = Publications(read(end)), None
        found: FoundOutput | None = None
        some: list[Numbered] = []
        """The first and the last outputs of the sink, by their present numbers."""
        for publication in publications:
            if number is not None and publications.renewal is not renewal:
                found, some, renewal = None, [], publications.renewal
            for one in publication.outputs:
                if one.sink == wanted.sink:
                    some[1:] = [one]
                    found = _in(one, number, wanted.content, value, publication) or found
        renewal = publications.renewal if number is not None else None
        if found is not None and (renewal is None or renewal.record < found.record):
            return found._replace(shift=shift)
        there = there or _range(some, wanted)
        if number is None or renewal is None:
            msg = f"the log has no {wanted}; {there}"
            raise UsageError(msg)
        shift += renewal.shifts.get(wanted.sink, 0)
        number, end = (wanted.number or 0) + shift, renewal.record - 1


def _in(
    outputs: Numbered,
    number: int | None,
    content: bytes,
    value: Callable[[bytes], bytes],
    publication: Publication,
) -> FoundOutput | None:
    """The output that is wanted, if it is among *outputs*."""
    if number is None:
        for index, output in reversed([*enumerate(outputs.outputs.cut())]):
            got = value(output)
            if content in {got, got.rstrip(b"\r\n")}:
                return FoundOutput(outputs.sink, outputs.first + index, got, publication.record)
    elif outputs.first <= number < outputs.first + outputs.outputs.amount:
        output = value(outputs.outputs.cut()[number - outputs.first])
        return FoundOutput(outputs.sink, number, output, publication.record)
    return None


def _sink(application: Application, name: str) -> Sink:
    return next(one for one in application.output_sinks if one.name == name)


def _range(some: Sequence[Numbered], wanted: WantedOutput) -> str:
    """Which outputs of a sink there are, by the first and the last ones."""
    if not some:
        return "it has none of this sink"
    last = some[-1].first + some[-1].outputs.amount - 1
    there = f"it has outputs {some[0].first:,} to {last:,}"
    is_before = wanted.number is not None and wanted.number < some[0].first
    if not is_before:
        return there
    return (
        f"{there}; --archive reads what the run has archived, and --keep-messages-gib of the run "
        "keeps more of the log"
    )


def origin_of(
    found: FoundOutput, application: Application, records: Iterable[Record], most: int
) -> Origin:
    """Run the messages again that were published with an output.

    Args:
        found: The output.
        application: The application.
        records: The records of the log, up to the one with which it was published.
        most: How many messages are returned at most, if it may be any of several.

    Raises:
        UsageError: The log does not have all messages, or none makes such an output.
        RuntimeFailure: An entity cannot be loaded.
    """
    replay = Replay(application, records)
    for publication, touched in replay:
        wanted = set(all_of(touched))
        if publication.record == found.record and replay.has(publication):
            search = _Search(found, application, publication, replay.rerun, most)
            replay.run(publication, wanted, touched)
            replay.settle(publication, touched, wanted)
            if (origin := search.origin()) is not None:
                return origin
            raise UsageError(_not_made(found, publication, replay.rerun))
        replay.settle(publication, touched, wanted)
    msg = f"the log does not have all messages any more that were published with {found}"
    raise UsageError(msg)


def _not_made(found: FoundOutput, publication: Publication, rerun: Rerun) -> str:
    """That no message makes an output again, and why."""
    offsets = f"offsets {publication.start:,} to {publication.end - 1:,}"
    msg = f"{found} was published with the messages of {offsets}, and none of them makes it again"
    if rerun.lacking:
        left_out = counted(rerun.lacking, "call")
        return f"{msg}: {left_out} left out, as the entity was there before the log begins"
    for source in rerun.unread:
        return f"{msg}: they are of the source {source!r}, which the application lacks"
    return f"{msg}, or another one that was not published: the code has changed"


class _Made(NamedTuple):
    """An output that a message makes again."""

    arrival: Arrival
    way: list[Change]


class _Search:
    """The search for an output among those that the messages of its publication make again."""

    def __init__(
        self,
        found: FoundOutput,
        application: Application,
        publication: Publication,
        rerun: Rerun,
        most: int,
    ) -> None:
        value = _sink(application, found.sink).value
        self._found, self._ends, self._most = found, publication.ends, most
        self._published = Counter[bytes]()
        self._index = 0
        """How many outputs that are the same were published before it."""
        for name, first, outputs in publication.outputs:
            if name == found.sink:
                values = [value(output) for output in outputs.cut()]
                before = values[: max(0, found.number - first)]
                self._index += before.count(found.output)
                self._published.update(values)
        self._same: list[_Made] = []
        self._others: deque[_Made] = deque(maxlen=most)
        """Outputs that were not published."""
        self._others_count = 0
        self._rerun = rerun
        rerun.notes_all, rerun.on_sent = True, self._note

    def _note(self, sink: str, output: bytes, arrival: Arrival) -> None:
        """Note an output that a message makes."""
        if sink != self._found.sink:
            return
        if output == self._found.output:
            self._same.append(_Made(arrival, self._way_to(output)))
        elif output not in self._published:
            self._others.append(_Made(arrival, self._way_to(output)))
            self._others_count += 1

    def origin(self) -> Origin | None:
        """The messages that may have made it; None if none has."""
        if self._same:
            among = self._narrowed()
            return Origin([one.way for one in among[-self._most :]], len(among), is_other=False)
        if self._others and not self._rerun.lacking:
            return Origin([one.way for one in self._others], self._others_count, is_other=True)
        return None

    def _way_to(self, output: bytes) -> list[Change]:
        way = self._rerun.way()
        if way[-1].where is None:
            way[-1].sent.append((self._found.sink, output))
        return way

    def _narrowed(self) -> list[_Made]:
        """Those that make the same, without those that made another one of the same.

        Outputs are published chunk by chunk; in a chunk, in the order of messages for each key.
        """
        if len(self._same) != self._published[self._found.output]:
            return self._same
        chunks = [bisect_right(self._ends, one.arrival.offset) for one in self._same]
        chunk = chunks[self._index]
        first = chunks.index(chunk)
        among = self._same[first : first + chunks.count(chunk)]
        if all(one.way[-1].where == among[0].way[-1].where for one in among):
            return [among[self._index - first]]
        return among


class LateMessages:
    """What messages did that came after their windows had closed; an iterator.

    Args:
        application: The application.
        records: The records of the log, from the oldest one on.
        state: Name of the state with the windows; None for any.
        beginning: The state to begin with; None for what the log says.

    Attributes:
        missing: How many more there were that are not late now, or cannot be run.
    """

    def __init__(
        self,
        application: Application,
        records: Iterable[Record],
        state: str | None = None,
        beginning: Committed | None = None,
    ) -> None:
        self._replay, self._state = Replay(application, records, beginning=beginning), state
        self.missing = 0

    def __iter__(self) -> Iterator[Change]:
        found: list[Change] = []
        self._replay.rerun.on_late = found.append
        self._replay.rerun.notes_all = True
        for publication, touched in self._replay:
            wanted = set(all_of(touched))
            if publication.late:
                self._replay.run(publication, wanted, touched)
            self._replay.settle(publication, touched, wanted)
            self.missing += publication.late - len(found)
            for change in found:
                if change.where is not None and self._state in {None, change.where[0]}:
                    yield change
            found.clear()
