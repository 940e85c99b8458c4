"""Standard output as a sink."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence

import structlog

from wallaroo.api.connectors import OutputSink
from wallaroo.system import standard_output
from wallaroo.system.printable import printable_output

log = structlog.get_logger("wallaroo.gateway")


class PrintSink(OutputSink):
    """Prints each output on its own line; a terminal gets no control characters.

    A pipe takes lines of up to 4 KiB whole or not at all, so that a stop while nobody reads cuts
    none.
    """

    def __init__(self) -> None:
        self._descriptor = -1
        self._is_terminal = False
        self._next = 0
        """Number of the first output that was not printed; 0 before the first."""
        self._has_reader = True

    def open(self, numbering: str) -> None:  # noqa: ARG002  (numbers of earlier runs say nothing)
        """See `OutputSink.open`."""
        self._descriptor = standard_output.descriptor()
        self._is_terminal = os.isatty(self._descriptor)

    def write(self, first: int, outputs: Sequence[bytes]) -> None:
        """See `OutputSink.write`."""
        together = b""
        for output in outputs[max(0, self._next - first) :]:
            line = output if output.endswith(b"\n") else output + b"\n"
            if together and len(together) + len(line) > select.PIPE_BUF:
                self._print(together)
                together = b""
            together += line
        self._print(together)
        self._next = first + len(outputs)

    def _print(self, lines: bytes) -> None:
        if not self._has_reader:
            return
        if self._is_terminal:
            lines = printable_output(lines)
        rest = memoryview(lines)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another program that has it open has set it so
                select.select([], [self._descriptor], [])
            except BrokenPipeError:
                self._has_reader = False
                log.warning("outputs are not printed", reason="standard output has no reader")
                return

    def __str__(self) -> str:
        return "standard output"
