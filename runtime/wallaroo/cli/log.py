"""`wallaroo log`: shows the records of a gateway's log."""

from __future__ import annotations

import base64
import json
import sys
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from wallaroo.cli.options import READ_ARCHIVE
from wallaroo.cli.saved_state import state_dir_of
from wallaroo.errors import UsageError
from wallaroo.gateway.contents import tables_in
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.entries import (
    CARRIED,
    DELIVERED,
    MESSAGES,
    NOTED,
    OUTPUTS,
    PUBLISHED,
    block_in,
    delivered_in,
    messages_in,
    noted_in,
    outputs_in,
    piece_in,
    published_in,
)
from wallaroo.gateway.log.records import MOST_NUMBER, SKIPPED, SNAPSHOT, Record
from wallaroo.gateway.numbering import Renumbering
from wallaroo.history.records import names_from, records
from wallaroo.run.user_output import reserved_stdout
from wallaroo.system.printable import counted, printable, printable_json
from wallaroo.wire.records import TICK_SOURCE

_SHOWN_BYTES = 60
"""How much of messages, outputs and positions is shown."""
_NUMBER = click.IntRange(1)
_KINDS = {
    "snapshot": SNAPSHOT,
    "messages": MESSAGES,
    "outputs": OUTPUTS,
    "published": PUBLISHED,
    "delivered": DELIVERED,
    "noted": NOTED,
    "carried": CARRIED,
    "skipped": SKIPPED,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@click.command()
@click.argument("state_dir", type=click.Path(path_type=Path), metavar="APP|STATE_DIR")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(list(_KINDS)),
    multiple=True,
    help="Only records of this kind. Can be given several times.",
)
@click.option(
    "--from-record",
    "first",
    type=_NUMBER,
    default=1,
    metavar="N",
    help="Number of the first record.",
)
@click.option(
    "--to-record",
    "end",
    type=_NUMBER,
    default=MOST_NUMBER,
    metavar="N",
    help="Number of the last record.",
)
@click.option(
    "--tail", "last", type=_NUMBER, metavar="N", help="Only the last records, at most this many."
)
@click.option(
    "--data",
    "with_data",
    is_flag=True,
    help=f"Show the first {_SHOWN_BYTES} bytes of messages and outputs; with --json, all of them, "
    "in Base64.",
)
@READ_ARCHIVE
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects, one per line.")
def log(
    state_dir: Path,
    kinds: tuple[str, ...],
    first: int,
    end: int,
    last: int | None,
    with_data: bool,
    archive: Path | None,
    as_json: bool,
) -> None:
    """Show the log of APP, or in STATE_DIR: what its gateway has accepted, published and delivered.

    The log is only read, and its gateway may be running. Each line has the number of a record, its
    kind, its time (UTC) if it has one, its size in bytes, and what it says, with the names that
    sources and sinks had when it was written. If the log is damaged, the records before the damage
    are shown, then what is damaged.

    \b
    Example:
      wallaroo log apps/word_count --tail 20
      wallaroo log .wallaroo/word-count --kind messages --kind published --data
      wallaroo log .wallaroo/word-count --json | jq .kind
    """  # noqa: D301  (click reads \b)
    if state_dir.suffix == ".py" or (state_dir / "application.py").is_file():
        state_dir = state_dir_of(str(state_dir), None)
    directory = state_dir / LOG
    if not directory.exists():
        msg = f"{state_dir} is not a state directory: it contains no {LOG}"
        raise UsageError(msg)
    chosen = {_KINDS[kind] for kind in kinds} or None
    held: deque[str] = deque(maxlen=last and min(last, sys.maxsize))
    with reserved_stdout() as out:
        try:
            names = Renumbering()
            for record in records(directory, end, archive):
                names = names_from(record, names)
                if record.number >= first and (chosen is None or record.kind in chosen):
                    line = (_json if as_json else _line)(record, names, with_data=with_data)
                    if last is None:
                        print(line, file=out)
                    else:
                        held.append(line)
        finally:
            for line in held:
                print(line, file=out)
            out.flush()


class _Said(NamedTuple):
    """What a record says."""

    text: str
    values: dict[str, Any]
    """The same as plain JSON values, with everything that *text* leaves out."""
    time_ns: int | None = None
    data: bytes | None = None
    """The messages or outputs in it."""


def _line(record: Record, names: Renumbering, *, with_data: bool) -> str:
    said = _read(record, names)
    time = "" if said.time_ns is None else _time(said.time_ns)
    name = _NAMES.get(record.kind, str(record.kind))
    line = f"{record.number:>8}  {name:<9}  {time:<23}  {len(record.payload):>10,}  {said.text}"
    if with_data and said.data:
        line += f": {_shown(said.data)}"
    return printable(line.rstrip())


def _json(record: Record, names: Renumbering, *, with_data: bool) -> str:
    said = _read(record, names)
    values: dict[str, Any] = {
        "number": record.number,
        "kind": _NAMES.get(record.kind, record.kind),
        "bytes": len(record.payload),
        **said.values,
    }
    if with_data and said.data is not None:
        values["data"] = base64.b64encode(said.data).decode("ascii")
    return printable_json(json.dumps(values))


def _read(record: Record, names: Renumbering) -> _Said:
    read = _READ.get(record.kind)
    return _Said("", {}) if read is None else read(bytes(record.payload), names)


def _read_snapshot(payload: bytes, names: Renumbering) -> _Said:
    tables = names.tables(tables_in(payload))
    end = tables["journal"]["end"]
    text = f"tables of {tables['application']!r} as of offset {end:,}"
    return _Said(text, {"tables": tables})


def _read_messages(payload: bytes, names: Renumbering) -> _Said:
    entry, block = names.messages(messages_in(payload)), block_in(payload)
    count, more = entry.messages, dict(entry.more)
    if entry.source == TICK_SOURCE:
        parts = [f"clock, {_range('offset', entry.first, entry.end - 1)}"]
    elif count:
        offsets = _range("offset", entry.first, entry.end - 1)
        parts = [f"{counted(count, 'message')} of source {entry.source!r}, {offsets}"]
    else:
        parts = [f"no message of source {entry.source!r}"]
    if "reached" in more:
        source, position = more["reached"]
        parts.append(f"{source!r} is read up to {_shown(position.encode('latin-1'))}")
    if "stream" in more:
        _, stream, last, *_ = more["stream"]
        parts.append(f"stream {stream!r} up to its message {last:,}")
    if "requests" in more:
        parts.append(f"{counted(len(more['requests']), 'request')} with a key")
    if "again" in more:
        parts.append("accepted before under other offsets")
    values = {**entry._asdict(), "more": more}
    return _Said("; ".join(parts), values, entry.arrived_ns, block.data)


def _read_outputs(payload: bytes, names: Renumbering) -> _Said:
    found, kept = piece_in(payload)
    piece = names.piece(found)
    text = f"{_range('output', piece.number, piece.last)} of sink {piece.sink!r}"
    values = {"sink": piece.sink, "first": piece.number, "outputs": piece.outputs}
    return _Said(text, {**values, "delivered": kept}, None, outputs_in(payload, piece.sink).data)


def _read_carried(payload: bytes, names: Renumbering) -> _Said:
    said = _read_outputs(payload, names)
    state = "delivered and kept" if said.values["delivered"] else "not delivered yet"
    return said._replace(text=f"{said.text}, moved here: {state}")


def _read_published(payload: bytes, names: Renumbering) -> _Said:
    entry = names.published(published_in(payload))
    more = entry.more
    parts = [f"{_range('chunk', entry.before + 1, entry.chunk)}, messages before {entry.end:,}"]
    parts += _numbers_of_outputs(more["outputs"])
    if more["changes"]:
        size = sum(size for *_, size in more["changes"])
        parts.append(f"{size:,} bytes of changes of state")
    if more["letters"]:
        parts.append(counted(len(more["letters"]), "dead letter"))
    values = {**entry._asdict(), **more, "tally": entry.tally.to_json()}
    del values["more"]
    return _Said("; ".join(parts), values, more["at"])


def _numbers_of_outputs(outputs: Mapping[str, int]) -> list[str]:
    return [f"{counted(number, 'output')} for sink {sink!r}" for sink, number in outputs.items()]


def _read_delivered(payload: bytes, names: Renumbering) -> _Said:
    entry = names.delivered(delivered_in(payload))
    values = {"sink": entry.sink, "up_to": entry.number, "keep_bytes": entry.keep_bytes}
    return _Said(f"the receiver of sink {entry.sink!r} has outputs up to {entry.number:,}", values)


_NOTES: dict[str, Callable[[Any], str]] = {
    "clock": lambda value: f"the clock shows {_time(value[0])}",
    "openings": lambda value: f"opened as {value[-1][1]} at offset {value[-1][0]:,}",
    "consumed": lambda end: f"messages before {end:,} are in the checkpoint",
    "forget": lambda name: f"stream {name[1]!r} of source {name[0]!r} is forgotten",
    "moved": lambda value: f"messages are numbered from {value[0]:,} on",
    "sent": lambda value: (
        f"the receiver of sink {value[0]!r} has outputs up to {value[1]:,}, so far"
    ),
    "numbered": lambda value: f"sink {value[0]!r} is {'' if value[1] else 'not '}numbered",
    "forgotten": lambda value: f"changes of chunks up to {value[1]:,} are in the checkpoint",
    "renewed": lambda value: f"outputs are numbered anew after chunk {value[1]:,}",
    "delivered": lambda value: f"the receiver of sink {value[0]!r} has outputs up to {value[1]:,}",
    "refused": lambda count: f"{counted(count, 'output')} refused",
    "outputs": lambda outputs: "; ".join(_numbers_of_outputs(outputs)),
}


def _read_noted(payload: bytes, names: Renumbering) -> _Said:
    values = names.noted(noted_in(payload))
    text = "; ".join(_NOTES[name](values[name]) for name in _NOTES if name in values)
    return _Said(text, values, values["clock"][0] if "clock" in values else None)


def _read_skipped(payload: bytes, _names: Renumbering) -> _Said:
    return _Said("damaged records, which were set aside", {}, None, payload)


_READ: dict[int, Callable[[bytes, Renumbering], _Said]] = {
    SNAPSHOT: _read_snapshot,
    MESSAGES: _read_messages,
    OUTPUTS: _read_outputs,
    CARRIED: _read_carried,
    PUBLISHED: _read_published,
    DELIVERED: _read_delivered,
    NOTED: _read_noted,
    SKIPPED: _read_skipped,
}


def _range(noun: str, first: int, last: int) -> str:
    return f"{noun} {first:,}" if first == last else f"{noun}s {first:,} to {last:,}"


def _shown(data: bytes) -> str:
    return f"{data[:_SHOWN_BYTES]!r}{'…' * (len(data) > _SHOWN_BYTES)}"


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
