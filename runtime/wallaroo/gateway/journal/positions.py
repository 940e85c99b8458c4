"""Numbers that the journal keeps by name: positions in it, and what its clock showed."""

from __future__ import annotations

import sqlite3

from wallaroo.gateway.journal.clock import Reading, SteadyClock, Uptime

SCHEMA = "CREATE TABLE IF NOT EXISTS position (name TEXT PRIMARY KEY, value INTEGER NOT NULL);"
_CLOCK_STORED_EVERY_NS = 10_000_000_000
"""Time, in nanoseconds, after which the clock is stored again."""


def time_in(database: sqlite3.Connection) -> int:
    """The time by the clock of a journal that is not open, whatever the wall clock does.

    Args:
        database: The journal's database.
    """
    return SteadyClock(last=Positions(database).clock()).now()


class Positions:
    """The table `position`; changes are part of the caller's transaction.

    Args:
        database: The journal's database.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._clock_stored_ns = 0

    def get(self, name: str) -> int:
        """The number called *name*; 0 if it was never stored."""
        row = self._database.execute(
            "SELECT value FROM position WHERE name = ?", (name,)
        ).fetchone()
        return row[0] if row else 0

    def put(self, name: str, value: int) -> None:
        """Store the number called *name*."""
        self._database.execute("INSERT OR REPLACE INTO position VALUES (?, ?)", (name, value))

    def clock(self) -> Reading | None:
        """What the clock showed when it was stored; None in a new journal."""
        time_ns = self.get("clock")
        if not time_ns:
            return None
        return Reading(time_ns, Uptime(self.get("boot"), self.get("uptime")))

    def put_clock(self, reading: Reading, *, at_once: bool = False) -> None:
        """Store what the clock shows, for the next start, if that is some time ago or *at_once*."""
        if at_once or reading.time_ns - self._clock_stored_ns >= _CLOCK_STORED_EVERY_NS:
            self.put("clock", reading.time_ns)
            self.put("boot", reading.uptime.boot)
            self.put("uptime", reading.uptime.ns)
            self._clock_stored_ns = reading.time_ns
