"""What is put into a queue goes to the journal."""

from __future__ import annotations

from functools import partial
from queue import Empty

from tests.connectors.toy import queues
from tests.connectors.toy.resolve import Marked, QueueSource
from wallaroo.connectors.threads import SourceThread, SourceThreads

_LOOK_S = 0.01


class QueueReader(SourceThread[QueueSource, None]):
    WAITS = "it waits for the queue"

    def _read(self) -> None:
        queue = queues[self._source.queue]
        while not self._stopping.is_set():
            if not self._has_room():
                continue
            try:
                message = queue.get(timeout=_LOOK_S)
            except Empty:
                continue
            data = Marked.MARK + message
            self._hand_in(partial(self._journal.submit, self._index, 1, data), None)


open_sources = partial(SourceThreads, QueueReader)
