"""A clock and random numbers that are the same whenever a message is processed again."""

from __future__ import annotations

import random
import sys
import time
from datetime import datetime
from types import FrameType

from wallaroo.api.durations import time_of


class Origin:
    """Where `now` and `rng` take from: outside of a run, the clock and the system's randomness."""

    def now_ns(self, _caller: FrameType) -> int:
        """The time for a function, in nanoseconds since the Unix epoch."""
        return time.time_ns()

    def rng(self, _caller: FrameType) -> random.Random:
        """The generator for a function."""
        return random.Random()


_origins = [Origin()]
"""The one that counts is the last."""


def use(origin: Origin) -> None:
    """Let `now` and `rng` take from *origin*, until `use_no_longer`."""
    _origins.append(origin)


def use_no_longer(origin: Origin) -> None:
    """Undo `use`."""
    _origins.remove(origin)


def now() -> datetime:
    """Return when the message that is processed has arrived, in UTC and to the millisecond.

    It is the same whenever the message is processed again, unlike `datetime.now()`: after a
    failure, and in `wallaroo explain`, `rehearse`, `shadow` and `replay`. In the function of a
    timer it is the time at which the timer was due or, if a message made it due, that of the
    message. In an aggregation or a join it is the time of the message, or of the reading of the
    clock, that the call is for. The steps that follow have the same time.

    Outside of a run it is the time by the computer's clock, and constant within
    `wallaroo.testing.at`.

    Raises:
        RuntimeError: No single message is processed: in a batch, in a thread or a task that a
            function has started, where entities are saved, loaded or migrated, and where `time=`
            finds the order of messages.

    Example:
        >>> import wallaroo
        >>> @wallaroo.computation(name="stamp")
        ... def stamp(message):
        ...     return message, wallaroo.now().isoformat()
        >>> from datetime import UTC, datetime
        >>> from wallaroo.testing import at
        >>> with at(datetime(2026, 11, 30, 8, tzinfo=UTC)):
        ...     stamp("hello")
        ('hello', '2026-11-30T08:00:00+00:00')
    """
    return time_of(_origins[-1].now_ns(sys._getframe(1)))  # noqa: SLF001


def rng() -> random.Random:
    """Return a generator of random numbers that are the same whenever a message is processed again.

    Each call of a function has its own generator. Its seed is derived from the message's offset,
    time of arrival and key, the names of pipeline, step and function, and the number of earlier
    calls of that kind. Who knows these can compute the numbers: for secrets, use the module
    `secrets`.

    Outside of a run, each call returns a generator without a seed; within `wallaroo.testing.at`,
    all return one that has a seed.

    Raises:
        RuntimeError: As with `now`; also in an async step, as its calls have no order.

    Example:
        >>> import uuid, wallaroo
        >>> @wallaroo.computation(name="identify")
        ... def identify(message):
        ...     return uuid.UUID(int=wallaroo.rng().getrandbits(128), version=4), message
        >>> identify("hello")[0].version
        4
    """
    return _origins[-1].rng(sys._getframe(1))  # noqa: SLF001
