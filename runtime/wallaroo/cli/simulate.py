"""`wallaroo simulate`: runs an application over messages from files, in this process."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import click

from wallaroo.cli.option_types import NumberType
from wallaroo.cli.options import application_without_addresses
from wallaroo.cli.streams import U32, Cutter, FramingName, framing_of
from wallaroo.connectors.tcp.resolve import TCPSource
from wallaroo.dataflow.tracebacks import place_of_failure
from wallaroo.errors import FrameError, RuntimeFailure, UsageError, WallarooError, reason_of
from wallaroo.model.application import Application
from wallaroo.model.endpoints import Source
from wallaroo.model.order import merged
from wallaroo.model.tables import reading_order
from wallaroo.run.state.transfer import written_entity
from wallaroo.run.user_output import reported_exits, reserved_stdout
from wallaroo.system.printable import counted, printable, printable_output
from wallaroo.testing import HintWarning, Simulation, messages_of
from wallaroo.testing import simulate as run
from wallaroo.testing._letters import places_of
from wallaroo.user_code.exceptions import describe_error, short_repr
from wallaroo.wire.framing import Framing

_READ_BYTES = 256 * 1024
_SHOWN_DEAD_LETTERS = 20


@click.command()
@click.argument("app")
@click.option(
    "--from",
    "files",
    multiple=True,
    metavar="[SOURCE=]FILE",
    help="File of messages, - for standard input; may be repeated.  [default: -]",
)
@click.option(
    "--framing",
    type=click.Choice(["frames", "lines"]),
    show_default="frames if a file begins with one, otherwise lines",
    help="Format of the files. frames: each has the header that a TCP source takes; for other "
    "sources, a big-endian 32-bit length. lines: each line is a message, without its line ending.",
)
@click.option("--count", type=click.IntRange(1), help="Exit after this many messages.")
@click.option(
    "--interval",
    type=NumberType(),
    default=0.0,
    show_default=True,
    help="Seconds between two messages, on the simulation's clock, which starts at 0.",
)
@click.option(
    "--until",
    type=NumberType(),
    help="Seconds to which the clock advances after the last message, so that windows close.",
)
@click.option("--show-state", is_flag=True, help="Print the entities afterwards, as JSON lines.")
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def simulate(
    app: str,
    files: tuple[str, ...],
    framing: FramingName | None,
    count: int | None,
    interval: float,
    until: float | None,
    show_state: bool,
    app_args: tuple[str, ...],
) -> None:
    """Run APP over messages from files in this process, without Spark, and print its outputs.

    If the application has several sources, name one of them for each file: --from SOURCE=FILE.
    Files are read one after the other. Sources that read files or generate messages need none; they
    are read in the order of time if they have time= and meet in steps with event time. For a source
    that reads a topic with envelope=True, each message is a record with a value alone.

    The outputs are those of `wallaroo run` for the same messages in the same order. Outputs, and
    what --show-state prints, go to standard output; dead letters and a summary to standard error.
    Outputs that are separate messages, as those of topics, webhooks and files of lines, get a line
    each.

    \b
    Example:
      printf 'ada\\ngrace\\nada\\n' | wallaroo simulate votes.py
      wallaroo simulate votes.py --from monday.txt --from tuesday.txt --show-state
    """  # noqa: D301  (click reads \b)
    with reserved_stdout() as out, reported_exits(), ExitStack() as opened:
        application = application_without_addresses(app, app_args)
        found = _messages(application, files, framing, opened)
        numbers = itertools.count()
        messages = (
            (source, payload, int(next(numbers) * interval * 1e9))
            for source, payload in itertools.islice(found, count)
        )
        end = None if until is None else int(until * 1e9)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = run(application, messages, until_ns=end)
        outputs = result.outputs
        if not all(sink.joins_outputs for sink in application.output_sinks):
            outputs = [one if one.endswith(b"\n") else one + b"\n" for one in outputs]
        data = b"".join(outputs)
        if out.isatty():
            data = printable_output(data)
        out.buffer.write(data)
        for name, entities in result.state.items() if show_state else ():
            for key, entity in entities.items():
                out.buffer.write(written_entity(name, key, entity, "json"))
        out.flush()
    for warning in warned:
        kind = "hint" if warning.category is HintWarning else "warning"
        click.echo(f"{kind}: {printable(warning.message)}", err=True)
    _report(application, next(numbers), result)


def _messages(
    application: Application,
    files: tuple[str, ...],
    framing: FramingName | None,
    opened: ExitStack,
) -> Iterator[tuple[str, Any]]:
    """The messages of *files*, with the names of their sources."""
    if not files and (reading := [s for s in application.sources if s.read(None) is not None]):
        return _read_all(application, reading)
    found = [_source_and_file(application, text) for text in files or ("-",)]
    streams = [(source, _opened(file, opened), file) for source, file in found]
    layouts = {one.name: one.framing for one in application.sources if isinstance(one, TCPSource)}
    return (
        (source, payload)
        for source, stream, file in streams
        for payload in _payloads(stream, framing, file, layouts.get(source, U32))
    )


def _read_all(application: Application, reading: Sequence[Source]) -> Iterator[tuple[str, Any]]:
    """The messages of sources that read them themselves, in the order in which a run reads them."""
    for indices in reading_order(application):
        sources = [one for one in reading if application.sources.index(one) in indices]
        for source, payload in merged([(one, _read(application, one.name)) for one in sources]):
            yield source.name, payload


def _read(application: Application, source: str) -> Iterator[Any]:
    """The payloads of a source that reads them itself.

    Raises:
        RuntimeFailure: It fails.
    """
    try:
        yield from (payload for _, payload in messages_of(application, source))
    except WallarooError:
        raise
    except Exception as error:
        declared = next(one for one in application.pipelines if one.source.name == source)
        where = place_of_failure(error) or declared.place
        msg = f"{where}: source {source!r} failed: {describe_error(error)}"
        raise RuntimeFailure(msg) from error


def _source_and_file(application: Application, text: str) -> tuple[str, str]:
    """The name of the source and the file that *text* names.

    Raises:
        UsageError: It names no source, and the application has several.
    """
    sources = [source.name for source in application.sources]
    name, mark, file = text.partition("=")
    if mark and name in sources:
        return name, file
    if len(sources) == 1 and not (mark and not Path(text).exists()):
        return sources[0], text
    names = ", ".join(map(repr, sources))
    msg = (
        f"{text!r} names none of the sources of {application.name}, {names}: write, for example, "
        f"--from {f'{sources[0]}={file if mark else text}'!r}"
    )
    raise UsageError(msg)


def _opened(file: str, opened: ExitStack) -> BinaryIO:
    if file == "-":
        return sys.stdin.buffer
    try:
        return opened.enter_context(Path(file).open("rb"))
    except OSError as error:
        msg = f"--from: cannot read {file!r}: {reason_of(error)}"
        raise UsageError(msg) from error


def _payloads(
    stream: BinaryIO, framing: FramingName | None, file: str, layout: Framing
) -> Iterator[bytes]:
    name = "standard input" if file == "-" else file
    remedy = "if each line is a message, use --framing lines"
    piece = stream.read(_READ_BYTES)
    framing = framing or framing_of(piece)
    cutter, header = Cutter(framing, layout), layout.header_length
    while piece:
        try:
            messages = cutter.feed(piece)
        except FrameError as error:
            msg = f"{name} does not contain frames: {error}; {remedy}"
            raise UsageError(msg) from error
        for message in messages:
            yield message.rstrip(b"\r\n") if framing == "lines" else message[header:]
        piece = stream.read(_READ_BYTES)
    if not cutter.rest:
        return
    if framing == "lines":
        yield cutter.rest.rstrip(b"\r\n")
        return
    msg = f"{name} ends with an incomplete frame of {len(cutter.rest)} bytes; {remedy}"
    raise UsageError(msg)


def _report(application: Application, messages: int, result: Simulation) -> None:
    """Print dead letters and dropped messages, and how many there were of everything."""
    places = dict(places_of(application))
    for pipeline, step, message, error in result.set_aside[:_SHOWN_DEAD_LETTERS]:
        where = place_of_failure(error) or places.get((pipeline, step.removeprefix("key of ")))
        at = f"{pipeline} / {step}" + (f", {where}" if where else "")
        text = f"dead letter: {at}: {describe_error(error)}; the message: {short_repr(message)}"
        click.echo(printable(text), err=True)
    if (more := len(result.set_aside) - _SHOWN_DEAD_LETTERS) > 0:
        click.echo(f"and {more:,} more dead letters", err=True)
    counts = (
        (messages, "message"),
        (len(result.outputs), "output"),
        (len(result.set_aside), "dead letter"),
        (len(result.late), "late message"),
        (len(result.unknown_keys), "unlisted key"),
    )
    parts = [
        counted(number, noun) for place, (number, noun) in enumerate(counts) if number or place <= 1
    ]
    click.echo(", ".join(parts), err=True)
    if waiting := sum(_waiting(application, result)):
        have = f"{counted(waiting, 'key')} {'has' if waiting == 1 else 'have'}"
        hint = f"hint: {have} windows or joins that emit more as time passes"
        click.echo(f"{hint}; --until moves the clock on", err=True)


def _waiting(application: Application, result: Simulation) -> Iterator[bool]:
    """For each entity of windows and joins, whether time alone makes it emit something."""
    for name, partition in application.partitions.items():
        if (windows := partition.windows) is not None:
            yield from (windows.due_ns(one) is not None for one in result.state[name].values())
