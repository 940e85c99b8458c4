"""Runs an application in one process, message by message, without Spark or sockets.

The result is the same as that of the engine for the same messages in the same order. Use it to test
applications; it is also the reference for the engine's own tests.

Example:
    >>> from wallaroo.testing import simulate
    >>> import wallaroo
    >>> text = wallaroo.decoder(header_length=4, length_fmt=">I")(lambda bs: bs.decode())
    >>> shout = wallaroo.computation(name="shout")(str.upper)
    >>> builder = wallaroo.ApplicationBuilder("Shout")
    >>> _ = builder.new_pipeline("Shouting", wallaroo.TCPSourceConfig("", 0, text)).to(shout)
    >>> _ = builder.to_sink(wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode)))
    >>> simulate(builder.build(), [("Shouting", b"hello")]).outputs
    [b'HELLO']
"""

from __future__ import annotations

import contextlib
import pathlib
import random
import warnings
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from types import FrameType
from typing import Any

from wallaroo.api.addresses import optional_addresses
from wallaroo.api.durations import since_epoch_ns
from wallaroo.api.repeatable import Origin, use, use_no_longer
from wallaroo.codecs.waiting import without_waiting
from wallaroo.errors import UsageError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.model.order import sources_in_order, times_function
from wallaroo.resolution.application import resolve
from wallaroo.resolution.hints import hints_of
from wallaroo.testing._run import Run, Simulation, UnlistedKeysWarning, source_of
from wallaroo.testing._watched_entities import Suspects
from wallaroo.wire.refusals import guarded

__all__ = [
    "HintWarning",
    "Simulation",
    "UnlistedKeysWarning",
    "at",
    "load",
    "messages_of",
    "simulate",
]


class HintWarning(UserWarning):
    """The application is valid, but probably not what its author means."""


def load(app: str | pathlib.Path, args: Sequence[str] = ()) -> Application:
    """Load an application as `wallaroo run` does.

    Args:
        app: Directory, `.py` file or module name.
        args: Arguments of its `application_setup`; `--in` and `--out` may be missing.

    Raises:
        UsageError: The application does not exist.
        ApplicationError: It cannot be loaded, or is invalid.
    """
    with optional_addresses():
        return ApplicationRef(str(app), tuple(args)).load()


def simulate(
    application: Any,
    messages: Iterable[tuple[str, Any] | tuple[str, Any, int]],
    *,
    until_ns: int | None = None,
) -> Simulation:
    """Run *application* over *messages*, one after the other.

    The clock advances to the arrival time of each message, and windows close accordingly.

    If user code raises, the message is dead-lettered, whatever the exception. Only
    `KeyboardInterrupt` itself (Ctrl-C) ends the simulation.

    If an entity cannot be saved at the end, the messages are processed again with a check of that
    entity after each: the messages that cause this are dead-lettered in the step at fault.

    Payloads of a decoder that is declared repeatable are decoded twice, and the messages compared.

    Args:
        application: Result of `ApplicationBuilder.build`, `build_application` or `load`.
        messages: Name of a source (that of its pipeline), a payload and optionally the time of
            arrival, in nanoseconds since the Unix epoch. Without a time the clock does not advance;
            it starts at 0. Payloads exclude the header of a frame, or the line feed of a line; the
            payload of a generator is the value itself, and that of a topic a value or a
            `KafkaRecord`, whose key and timestamp outputs can keep.
        until_ns: Time to which the clock advances after the last message.

    Raises:
        ApplicationError: The application is invalid, or a decoder is not as repeatable as declared.
        UsageError: A source does not exist.

    Warns:
        HintWarning: The application probably does not do what is meant; `wallaroo check` says so.
        UnlistedKeysWarning: Most messages of a source were dropped because of unlisted keys.
    """
    resolved, recorded = _resolved(application), list[tuple[Any, ...]]()
    for hint in hints_of(resolved, is_saved=False):
        warnings.warn(hint, HintWarning, stacklevel=2)
    suspects = Suspects()
    run = _run(resolved, _recording(messages, recorded), until_ns, suspects)
    while run.has_new_suspects():
        run = _run(resolved, recorded, until_ns, suspects)
    run.warn_of_unlisted()
    return run.result


@contextlib.contextmanager
def at(time: datetime | int, seed: int = 0) -> Iterator[None]:
    """Within the block, let `wallaroo.now` return *time*, and `wallaroo.rng` one generator.

    For tests that call functions themselves. A simulation needs none of it: its messages have times
    and places.

    Args:
        time: A datetime with a time zone, or nanoseconds since the Unix epoch.
        seed: Seed of the generator.

    Raises:
        TypeError: The time is neither.

    Example:
        >>> import wallaroo
        >>> from datetime import UTC, datetime
        >>> with at(datetime(2026, 11, 30, 8, tzinfo=UTC)):
        ...     wallaroo.now().hour, wallaroo.rng().randrange(100)
        (8, 49)
    """
    origin = _Fixed(since_epoch_ns(time, "time"), random.Random(seed))
    use(origin)
    try:
        yield
    finally:
        use_no_longer(origin)


class _Fixed(Origin):
    def __init__(self, now_ns: int, rng: random.Random) -> None:
        self._now_ns, self._rng = now_ns, rng

    def now_ns(self, _caller: FrameType) -> int:
        return self._now_ns

    def rng(self, _caller: FrameType) -> random.Random:
        return self._rng


def _run(
    application: Application,
    messages: Iterable[tuple[Any, ...]],
    until_ns: int | None,
    suspects: Suspects,
) -> Run:
    """Run *application* over *messages* once.

    Args:
        application: The application.
        messages: The messages.
        until_ns: Time to which the clock advances at the end.
        suspects: Entities to check after each message.
    """
    run = Run(application, suspects)
    with without_waiting():
        for source, payload, *arrived in messages:
            if arrived:
                run.advance_clock(int(arrived[0]))
            run.take(source, payload)
        if until_ns is not None:
            run.advance_clock(until_ns)
    return run


def _recording(
    messages: Iterable[tuple[Any, ...]], recorded: list[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Yield *messages*, and append each to *recorded*."""
    for message in messages:
        recorded.append(message)
        yield message


def messages_of(application: Any, source: str, position: Any = None) -> Iterator[tuple[str, Any]]:
    """Yield the available messages of a generator, a file or a custom source, for `simulate`.

    Args:
        application: Result of `ApplicationBuilder.build`, `build_application` or `load`.
        source: Name of the source.
        position: Position after which to start; None for the beginning.

    Raises:
        ApplicationError: The application is invalid.
        UsageError: The source does not exist, or listens on a port.

    Example:
        >>> import itertools, wallaroo
        >>> class Numbers:
        ...     def initial_value(self):
        ...         return 1
        ...     def apply(self, previous):
        ...         return previous + 1
        >>> builder = wallaroo.ApplicationBuilder("Count")
        >>> _ = builder.new_pipeline("Numbers", wallaroo.GenSourceConfig(Numbers())).done()
        >>> list(itertools.islice(messages_of(builder.build(), "Numbers"), 3))
        [('Numbers', 1), ('Numbers', 2), ('Numbers', 3)]
    """
    resolved = _resolved(application)
    found = source_of(resolved, source)
    index = resolved.sources.index(found)
    in_order = any(index in indices for indices in sources_in_order(resolved))
    times_of = times_function(found)
    items = found.read_in_order(position, times_of) if in_order else found.read(position)
    if items is None:
        msg = f"source {source!r} listens on {found.where}, so it has no messages to read"
        raise UsageError(msg)
    for item in items:
        if item is None:
            return
        payload = guarded(item[0])
        yield source, found.decode(payload) if found.gives_messages else payload


def _resolved(application: Any) -> Application:
    return application if isinstance(application, Application) else resolve(application)
