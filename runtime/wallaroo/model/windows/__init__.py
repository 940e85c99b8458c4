"""The semantics of windows, for one key at a time.

An entity holds the open windows of one key. Time is event time, in nanoseconds since the Unix
epoch. A message advances the key's watermark to its own time, if that is later. While the key is
silent, the clock does, by the length of the silence, so windows close even if no more messages
arrive; it advances the watermark only as far as the windows that it closes require. What windows
emit therefore depends on the messages and their times of arrival, and not on when ticks of the
clock are processed.
"""

from wallaroo.model.windows.base import Failed, Late, Windows, overdue
from wallaroo.model.windows.counts import CountEntity, CountWindows
from wallaroo.model.windows.ranges import RangeEntity, RangeWindows
from wallaroo.model.windows.sessions import SessionEntity, SessionWindows

__all__ = [
    "CountEntity",
    "CountWindows",
    "Failed",
    "Late",
    "RangeEntity",
    "RangeWindows",
    "SessionEntity",
    "SessionWindows",
    "Windows",
    "overdue",
]
