"""The simulated disk of the log, with syncs that take their time."""

from __future__ import annotations

from tests.gateway.log.simulated_disk import SimulatedDisk


class SlowDisk(SimulatedDisk):
    """A disk that a sync makes safe what was written before the sync began, and no more."""

    def begin_sync(self, descriptor: int) -> tuple[int, int]:
        """A sync begins; for `end_sync`."""
        self._called("fdatasync")
        return descriptor, len(self._descriptors[descriptor].pending)

    def end_sync(self, begun: tuple[int, int]) -> None:
        """It has ended."""
        file = self._descriptors[begun[0]]
        settled, file.pending = file.pending[: begun[1]], file.pending[begun[1] :]
        data = bytearray(file.durable)
        for change in settled:
            if isinstance(change, int):
                del data[change:]
                continue
            offset, written = change
            data.extend(bytes(max(0, offset - len(data))))
            data[offset : offset + len(written)] = written
        file.durable = bytes(data)
