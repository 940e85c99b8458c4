"""How large a batch may be: as large as what there is time and memory for."""

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
"""Messages of the first batch at most: a fast application passes that in a fraction of a second,
and a slow one is found out before it has a million of them in hand."""
_STEP = 4
"""Times that a batch may be larger, or smaller, than the one before: one that took long may have
had to wait for something else."""
_FIXED_S = 0.2
"""Fixed cost of a batch that is assumed until batches show another."""
_ASSUMED = 0.01
"""Weight of that assumption; a batch that has just ended has 1."""
_RECENT = 16
"""Batches that costs are learned from."""
_KEEP, _KEEP_CHANGED = 0.8, 0.1
"""What is left of a batch's weight after the next one, and after one that took far too long."""
_CHANGED = 2.0
"""Times longer than expected that a batch takes where costs seem to have changed."""
_CHANCE = 0.3
"""Part of its time by which a batch may be off before it counts less."""
_ROUNDS = 3
"""Rounds of the fit: the first takes the scale of noise from times, the others from the fit."""
_SELDOM, _OFTEN = 8, 3
"""A smaller batch after so many full ones shows what the fixed cost is; more often where it is
what batches take most of their time for."""


@dataclass(frozen=True)
class BatchLimits:
    """Bounds of a batch; it takes one chunk of the journal at least."""

    max_bytes: int = 64 * 1024**2
    """Bytes of messages: what processes hold of a batch at a time grows with it."""
    seconds: float = 3.0
    """Seconds that a batch may take under load, about: results come out, and state is safe, at its
    end. A fixed cost of more than half of that stretches it; see `Pace`."""


@dataclass(frozen=True)
class BatchCosts:
    """What a batch costs, as far as it is known.

    Example:
        >>> BatchCosts(3.0, 0.2, 1e-5, 280_000).exceeded
        False
        >>> BatchCosts(3.0, 2.0, 1e-5, 200_000).longest_s
        4.0
    """

    limit_s: float
    """Seconds that a batch may take."""
    fixed_s: float
    """Seconds that it takes whatever its messages."""
    message_s: float
    """Seconds for each message."""
    messages: int
    """Messages that it may have."""

    @property
    def longest_s(self) -> float:
        """Seconds that a batch takes at most."""
        return max(self.limit_s, 2 * self.fixed_s)

    @property
    def exceeded(self) -> bool:
        """Whether batches under load take longer than they may, because of their fixed cost."""
        return self.longest_s > self.limit_s


@dataclass(frozen=True)
class CostsFile:
    """Where Spark's planning process, which sizes batches, leaves `BatchCosts` for the driver.

    Args:
        file: Path on the machine that both run on.
    """

    file: str

    def write(self, costs: BatchCosts) -> None:
        """Leave *costs*; a full disk costs no more than that they are not known."""
        fresh = Path(f"{self.file}.new")
        with contextlib.suppress(OSError):
            fresh.write_text(json.dumps(asdict(costs)))
            fresh.replace(self.file)

    def read(self) -> BatchCosts | None:
        """What was left last; None before the first batch has ended."""
        try:
            return BatchCosts(**json.loads(Path(self.file).read_text()))
        except FileNotFoundError:
            return None


class _Seen(NamedTuple):
    """A batch that has ended."""

    messages: int
    took: float
    weight: float


class _Fit:
    """Fits `seconds = fixed + each * messages` to the last batches, the newest counting most.

    The noise of a batch is assumed to be in proportion to its time, and outliers count less.

    Args:
        seconds: How long a batch may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: deque[_Seen] = deque(maxlen=_RECENT)
        self.fixed, self.each = 0.0, 0.0

    def add(self, messages: int, took: float) -> bool:
        """Learn of a batch of *messages*; returns whether it took far longer than expected."""
        expected = self.fixed + self.each * messages
        changed = bool(self._seen) and took > _CHANGED * expected
        keep = _KEEP_CHANGED if changed else _KEEP
        kept = [one._replace(weight=one.weight * keep) for one in self._seen]
        self._seen.extend([*kept, _Seen(messages, took, 1.0)][-_RECENT:])
        times: Sequence[float] = [one.took for one in self._seen]
        for _ in range(_ROUNDS):
            self.fixed, self.each = self._solved(times)
            times = [max(self.fixed + self.each * one.messages, 1e-6) for one in self._seen]
        return changed

    def _solved(self, times: Sequence[float]) -> tuple[float, float]:
        """Weighted least squares, where *times* scale the noise of each batch."""
        weights = _ASSUMED / max(self._seconds, *times) ** 2
        totals = weights * min(_FIXED_S, self._seconds / 2)
        sizes = squares = products = 0.0
        for (messages, took, weight), about in zip(self._seen, times, strict=True):
            off = abs(took - about) / max(took, about)
            counts = weight / about**2 * (_CHANCE / off if off > _CHANCE else 1.0)
            weights += counts
            sizes += counts * messages
            squares += counts * messages**2
            totals += counts * took
            products += counts * messages * took
        scale = weights * squares - sizes**2
        fixed = (totals * squares - products * sizes) / scale
        each = (weights * products - sizes * totals) / scale
        if fixed < 0:
            return 0.0, products / squares
        if each < 0:
            return totals / weights, 0.0
        return fixed, each


class Pace:
    """Learns from each batch how many messages the next may have.

    A batch has a fixed cost and one for each message. Messages get what the fixed cost leaves of
    the time that a batch may take, but at least as much time as the fixed cost itself: smaller
    batches would hardly end sooner, and would cost throughput. So throughput is never less than
    half of what batches of any size could give.

    Args:
        seconds: How long a batch may take.
        clock: Tells the time, in seconds.

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
        """Full batches since there was a smaller one on purpose."""
        self.messages = _FIRST
        """Messages that the next batch may have."""

    @property
    def costs(self) -> BatchCosts:
        """What a batch costs, as far as it is known."""
        return BatchCosts(self._seconds, self._fit.fixed, self._fit.each, self._most)

    def begin(self, start: int, end: int) -> None:
        """Note that a batch of the offsets [*start*, *end*) begins."""
        self._batch = (start, end, self._clock()) if end > start else None

    def end(self, reached: int) -> bool:
        """Note that all before offset *reached* is processed; returns whether that ends a batch."""
        if self._batch is None or self._batch[1] != reached:
            return False
        start, end, began = self._batch
        self._batch = None
        count, took = end - start, max(self._clock() - began, 1e-3)
        full = _STEP * count >= self.messages  # or its bytes, or what there was, bounded it
        changed = self._fit.add(count, took)
        self._full += full
        if full and changed and took > self._seconds:
            self._try_smaller(count)  # was it chance? the fit knows after the next batch
            return True
        self._set_most(count, full=full)
        if self._full < (_OFTEN if self.costs.exceeded else _SELDOM):
            self.messages = self._most
        else:
            self._try_smaller(min(self._most, count))
        return True

    def _set_most(self, count: int, *, full: bool) -> None:
        """Set what batches may have, after one of *count* messages."""
        fixed, each = self._fit.fixed, self._fit.each
        budget = max(self._seconds - fixed, fixed)
        most = _STEP * max(self._most, count)
        fitting = most if each * most <= budget else int(budget / each)
        if fitting >= self._most:
            self._most = max(self._most, min(fitting, _STEP * count))
        elif full:
            self._most = max(1, self._most // _STEP, fitting)

    def _try_smaller(self, messages: int) -> None:
        """Let the next batch have far fewer than *messages*, or more of very few."""
        self.messages = messages // _STEP or 2 * messages
        self._full = 0
