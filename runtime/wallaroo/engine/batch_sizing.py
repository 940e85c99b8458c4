"""Determines the size of batches, within limits of time and memory."""

from __future__ import annotations

import contextlib
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

_FIRST = 20_000
"""Maximum size of the first batch, in messages: a fast application processes that in a fraction of
a second, and a slow one is detected before it gets a million messages."""
_STEP = 4
"""Maximum factor between the sizes of successive batches: a batch may have been slow for unrelated
reasons."""
_FIXED_S = 0.2
"""Assumed fixed cost of a batch until batches provide an estimate."""
_ASSUMED = 0.01
"""Weight of that assumption; the last batch has the weight 1."""
_RECENT = 16
"""Number of batches from which costs are estimated."""
_KEEP, _KEEP_CHANGED = 0.8, 0.1
"""Factor for a batch's weight with each later batch, and with one that took far too long."""
_CHANGED = 2.0
"""Ratio of actual to expected time above which costs seem to have changed."""
_CHANCE = 0.3
"""Relative deviation above which a batch counts less."""
_ROUNDS = 3
"""Rounds of the fit: the first derives the scale of noise from times, the others from the fit."""
_SELDOM, _OFTEN = 8, 3
"""Number of full batches after which a smaller one measures the fixed cost; the second applies if
the fixed cost dominates."""


@dataclass(frozen=True)
class BatchLimits:
    """Limits of a batch, which contains at least one chunk of the journal."""

    max_bytes: int = 64 * 1024**2
    """Maximum size of its messages, in bytes; determines the memory that processes need."""
    seconds: float = 3.0
    """Approximate maximum duration under load, in seconds: at its end, outputs are sent and state
    is durable. Exceeded if the fixed cost is more than half of it; see `Pace`."""


@dataclass(frozen=True)
class BatchCosts:
    """The estimated cost of a batch.

    Example:
        >>> BatchCosts(3.0, 0.2, 1e-5, 280_000).exceeded
        False
        >>> BatchCosts(3.0, 2.0, 1e-5, 200_000).longest_s
        4.0
    """

    limit_s: float
    """Target for the maximum duration, in seconds."""
    fixed_s: float
    """Fixed cost, in seconds."""
    message_s: float
    """Cost per message, in seconds."""
    messages: int
    """Maximum number of messages."""

    @property
    def longest_s(self) -> float:
        """Expected maximum duration of a batch, in seconds."""
        return max(self.limit_s, 2 * self.fixed_s)

    @property
    def exceeded(self) -> bool:
        """Whether batches under load exceed the target because of their fixed cost."""
        return self.longest_s > self.limit_s


@dataclass(frozen=True)
class CostsFile:
    """The file in which Spark's planning process, which sizes batches, reports `BatchCosts`.

    Args:
        file: Path on the machine that both run on.
    """

    file: str

    def write(self, costs: BatchCosts) -> None:
        """Write *costs*; a failure, such as a full disk, is ignored."""
        fresh = Path(f"{self.file}.new")
        with contextlib.suppress(OSError):
            fresh.write_text(json.dumps(asdict(costs)))
            fresh.replace(self.file)

    def read(self) -> BatchCosts | None:
        """Return the last report; None before the end of the first batch."""
        try:
            return BatchCosts(**json.loads(Path(self.file).read_text()))
        except FileNotFoundError:
            return None


class _Observation(NamedTuple):
    """A completed batch."""

    messages: int
    took: float
    weight: float


class _Fit:
    """Fits `seconds = fixed + each * messages` to the last batches, weighted towards the newest.

    The noise of a batch is assumed to be proportional to its time, and outliers count less.

    Args:
        seconds: Target for the maximum duration of a batch.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._observed: deque[_Observation] = deque(maxlen=_RECENT)
        self.fixed, self.each = 0.0, 0.0

    def add(self, messages: int, took: float) -> bool:
        """Add a batch of *messages*; returns whether it took far longer than expected."""
        expected = self.fixed + self.each * messages
        changed = bool(self._observed) and took > _CHANGED * expected
        keep = _KEEP_CHANGED if changed else _KEEP
        previous = [one._replace(weight=one.weight * keep) for one in self._observed]
        self._observed.extend([*previous, _Observation(messages, took, 1.0)][-_RECENT:])
        times: Sequence[float] = [one.took for one in self._observed]
        for _ in range(_ROUNDS):
            self.fixed, self.each = self._solve(times)
            times = [max(self.fixed + self.each * one.messages, 1e-6) for one in self._observed]
        return changed

    def _solve(self, times: Sequence[float]) -> tuple[float, float]:
        """Solve by weighted least squares; *times* scale the noise of each batch."""
        weights = _ASSUMED / max(self._seconds, *times) ** 2
        totals = weights * min(_FIXED_S, self._seconds / 2)
        sizes = squares = products = 0.0
        for (messages, took, weight), estimate in zip(self._observed, times, strict=True):
            deviation = abs(took - estimate) / max(took, estimate)
            factor = weight / estimate**2 * (_CHANCE / deviation if deviation > _CHANCE else 1.0)
            weights += factor
            sizes += factor * messages
            squares += factor * messages**2
            totals += factor * took
            products += factor * messages * took
        scale = weights * squares - sizes**2
        fixed = (totals * squares - products * sizes) / scale
        each = (weights * products - sizes * totals) / scale
        if fixed < 0:
            return 0.0, products / squares
        if each < 0:
            return totals / weights, 0.0
        return fixed, each


class Pace:
    """Adapts the maximum number of messages to the duration of batches.

    A batch has a fixed cost and a cost per message. Messages get the time that remains after the
    fixed cost, but at least as much time as the fixed cost itself: smaller batches would hardly end
    sooner and would reduce throughput. Throughput is therefore at least half of what batches of any
    size could achieve.

    Args:
        seconds: Target for the maximum duration of a batch.
        clock: Returns the time in seconds.

    Example:
        >>> now = 0.0
        >>> pace = Pace(3.0, lambda: now)
        >>> pace.begin(0, 20_000)
        >>> now = 12.0
        >>> pace.end(20_000)
        True
        >>> pace.messages
        5000
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._batch: tuple[int, int, float] | None = None
        self._fit = _Fit(seconds)
        self._most = _FIRST
        self._full = 0
        """Number of full batches since the last deliberately smaller one."""
        self.messages = _FIRST
        """Maximum number of messages of the next batch."""

    @property
    def costs(self) -> BatchCosts:
        """The estimated cost of a batch."""
        return BatchCosts(self._seconds, self._fit.fixed, self._fit.each, self._most)

    def begin(self, start: int, end: int) -> None:
        """Record the start of a batch with the offsets [*start*, *end*)."""
        self._batch = (start, end, self._clock()) if end > start else None

    def end(self, reached: int) -> bool:
        """Record that all offsets before *reached* are processed; returns if that ends a batch."""
        if self._batch is None or self._batch[1] != reached:
            return False
        start, end, began = self._batch
        self._batch = None
        count, took = end - start, max(self._clock() - began, 1e-3)
        full = _STEP * count >= self.messages  # or limited by bytes or by the available messages
        changed = self._fit.add(count, took)
        self._full += full
        if full and changed and took > self._seconds:
            self._try_smaller(count)  # the fit after the next batch shows whether this was chance
            return True
        self._set_most(count, full=full)
        if self._full < (_OFTEN if self.costs.exceeded else _SELDOM):
            self.messages = self._most
        else:
            self._try_smaller(min(self._most, count))
        return True

    def _set_most(self, count: int, *, full: bool) -> None:
        """Update the maximum size after a batch of *count* messages."""
        fixed, each = self._fit.fixed, self._fit.each
        budget = max(self._seconds - fixed, fixed)
        most = _STEP * max(self._most, count)
        fitting = most if each * most <= budget else int(budget / each)
        if fitting >= self._most:
            self._most = max(self._most, min(fitting, _STEP * count))
        elif full:
            self._most = max(1, self._most // _STEP, fitting)

    def _try_smaller(self, messages: int) -> None:
        """Make the next batch much smaller than *messages*, or larger if there are very few."""
        self.messages = messages // _STEP or 2 * messages
        self._full = 0
