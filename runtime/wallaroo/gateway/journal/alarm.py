"""The journal's alarm: when the next tick is to come, and the time that the log says it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wallaroo.gateway.entries import NOTED, pack_noted
from wallaroo.gateway.journal.clock import Reading, SteadyClock, Uptime
from wallaroo.gateway.journal.write_buffer import WriteBuffer
from wallaroo.gateway.silence import Silence
from wallaroo.gateway.writer import LogWriter
from wallaroo.wire.records import TICK_SOURCE

NEVER = (1 << 63) - 1
"""A time that no clock shows, in nanoseconds since the Unix epoch."""
_STORED_EVERY_NS = 10_000_000_000
"""Time, in nanoseconds, after which the clock is stored again."""


class Alarm:
    """Adds ticks to the messages, and stores the clock and for how long sources were held.

    Args:
        clock: The clock by which messages arrive and ticks come.
        silence: For how long sources were held.
        buffer: Gets the ticks.
        writer: Writes the log.
    """

    def __init__(
        self, clock: SteadyClock, silence: Silence, buffer: WriteBuffer, writer: LogWriter
    ) -> None:
        self._clock, self._silence, self._buffer = clock, silence, buffer
        self._writer, self._changed = writer, writer.changed
        self._stored: Reading | None = None
        self._at_ns = NEVER
        self._has_outputs = True

    def restore(self, tables: Mapping[str, Any]) -> None:
        """Begin with what `tables` returned."""
        self._silence.restore(tables.get("held"))
        if tables["clock"]:
            self._note(tables["clock"])

    def tables(self) -> dict[str, Any]:
        """What is to be known of the time, as plain JSON values."""
        stored = self._stored
        clock = stored and [stored.time_ns, *stored.uptime]
        return {"held": self._silence.to_json(), "clock": clock}

    def replay(self, values: Mapping[str, Any]) -> None:
        """Take over what `store` has noted in a record that was found."""
        self._note(values["clock"])
        self._silence.stored(values.get("held", ()), values["clock"][0])

    def _note(self, clock: list[int]) -> None:
        self._stored = Reading(clock[0], Uptime(*clock[1:]))

    def begin(self) -> None:
        """Let the clock go on from what was stored."""
        self._clock.resume(self._stored)
        self._silence.resume()

    def store(self, *, at_once: bool = False) -> None:
        """Store the clock if it is time for that, or *at_once*."""
        reading = self._clock.read()
        stored = self._stored
        if at_once or stored is None or reading.time_ns - stored.time_ns >= _STORED_EVERY_NS:
            self._stored = reading
            now = [reading.time_ns, *reading.uptime]
            held = self._silence.held(TICK_SOURCE, reading.time_ns)
            self._silence.stored(held, reading.time_ns)
            noted = {"clock": now, "held": held} if held else {"clock": now}
            self._writer.append_unsynced(NOTED, pack_noted(**noted))

    def set(self, at_ns: int | None, *, has_outputs: bool = True) -> None:
        """Add a tick when the clock shows *at_ns*; None for never.

        Args:
            at_ns: When, in nanoseconds since the Unix epoch.
            has_outputs: Whether it or a later one may have outputs.
        """
        with self._changed:
            self._at_ns = NEVER if at_ns is None else at_ns
            self._has_outputs = has_outputs
            self._writer.wake()

    def ring_if_time(self) -> None:
        """Add the tick if it is time, and store the clock if it is time for that."""
        with self._changed:
            if self._silence.is_watched:
                self.store()
            if self._until_tick() == 0.0:
                self._at_ns = NEVER
                self._buffer.add(TICK_SOURCE, 1, b"")

    def until_turn(self) -> float | None:
        """Seconds until `ring_if_time` has something to do; None for never."""
        with self._changed:
            times = [self._until_tick(), self._until_stored() if self._silence.is_watched else None]
            return min((at for at in times if at is not None), default=None)

    def _until_tick(self) -> float | None:
        """Seconds until the tick is to be added; None if there is to be none."""
        if self._at_ns == NEVER:
            return None
        return max(0.0, (self._at_ns - self._clock.now()) / 1e9)

    def _until_stored(self) -> float:
        """Seconds until the clock is stored even if no message arrives."""
        since_ns = 0 if self._stored is None else self._stored.time_ns
        return max(0.0, (since_ns + _STORED_EVERY_NS - self._clock.now()) / 1e9)

    @property
    def is_set(self) -> bool:
        """Whether a tick is to come."""
        return self._at_ns < NEVER

    @property
    def waits_for_outputs(self) -> bool:
        """Whether a tick is to come, and it or a later one may have outputs."""
        with self._changed:
            return self.is_set and self._has_outputs
