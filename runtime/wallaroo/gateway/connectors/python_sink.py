"""Sinks that Python code writes: published outputs in order, numbered, until they are safe.

The code belongs to the application: what it raises is logged with its place, and it gets the same
outputs again after a growing pause.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import structlog

from wallaroo.api.connectors import OutputSink
from wallaroo.dataflow.tracebacks import place_of_failure
from wallaroo.gateway.outbox.outbox import Outbox, cut_outputs
from wallaroo.model.application import CustomSink
from wallaroo.model.raised import describe_error
from wallaroo.observability.logs import Repeats

_IDLE_WAIT_S = 0.5
"""Wait for outputs while there are none, before looking whether to stop."""
_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 30.0
"""Pause before a write is repeated: doubles from the first to the most."""
_STOP_S = 5.0
"""Time that a sink has, at a stop, to finish a write."""

log = structlog.get_logger("wallaroo.gateway")


class PythonSinkWriter:
    """Writes one sink's outputs in a separate thread.

    Args:
        index: Index of the sink in the application.
        sink: The sink.
        outbox: Where the outputs are.
    """

    def __init__(self, index: int, sink: CustomSink, outbox: Outbox) -> None:
        self._index = index
        self._sink = sink
        self._outbox = outbox
        self._numbering = f"{outbox.identity}-{index}-{sink.name}"
        self._number = outbox.delivered_to(index)
        """Number of the first output that may not be safe."""
        self._taken = 0
        """Position in the outbox up to which outputs are safe."""
        self._stopping = threading.Event()
        self._settling = threading.Lock()
        """Held while outputs are noted as delivered, which does not happen after a stop."""
        self._repeats = Repeats()
        self.problem: str | None = None
        """Why outputs are not written now; None while they are."""
        self._thread = threading.Thread(target=self._run, name=f"sink-{index}", daemon=True)
        self._thread.start()

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Stop writing; what is not delivered stays in the outbox."""
        self._stopping.set()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            log.warning("sink does not stop", **self._names(), reason="it waits in write()")
            self._settling.acquire()  # for good: what it still writes does not count as delivered

    def _run(self) -> None:
        pause = _RETRY_FIRST_S
        while not self._stopping.is_set():
            number = self._number
            try:
                self._write()
            except BaseException as error:  # this thread continues, whatever it is
                pause = _RETRY_FIRST_S if number != self._number else pause
                self._log(error, pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, _RETRY_MOST_S)

    def _write(self) -> None:
        """Write outputs as they are published, until stopped."""
        writer = self._sink.writer
        writer.open(self._numbering)
        with self._closing(writer):
            while not self._stopping.is_set():
                delivery = self._outbox.next(self._index, self._taken, _IDLE_WAIT_S)
                if delivery is None:
                    continue
                outputs = cut_outputs(delivery.outputs)
                writer.write(self._number, outputs)
                with self._settling:
                    self._outbox.delivered(self._index, delivery.position)
                self._taken = delivery.position
                self._number += len(outputs)
                self.problem = None

    @contextlib.contextmanager
    def _closing(self, writer: OutputSink) -> Iterator[None]:
        """Close *writer* at the end; a failure before that is not hidden by one of `close`."""
        try:
            yield
        except BaseException:
            try:
                writer.close()
            except BaseException as error:  # the first failure is the one to report
                log.warning("sink not closed", **self._names(), reason=_reason(error))
            raise
        writer.close()

    def _log(self, error: BaseException, pause: float) -> None:
        self.problem = reason = _reason(error)
        if self._repeats.show(reason):
            log.warning(
                "sink failed",
                **self._names(),
                reason=reason,
                next_try_s=pause,
                outputs="wait on disk",
            )

    def _names(self) -> dict[str, str]:
        return {"sink": self._sink.name, "writes": self._sink.where}


def _reason(error: BaseException) -> str:
    place = place_of_failure(error)
    return describe_error(error) + (f" ({place})" if place else "")
