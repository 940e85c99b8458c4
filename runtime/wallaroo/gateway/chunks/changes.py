"""Sends partitions that start what chunks have changed and Spark does not have."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from wallaroo.gateway.chunks.peers import Peer
from wallaroo.gateway.store import Store
from wallaroo.wire.chunk_messages import DONE, RECORD


class ChangeSender:
    """Sends changes to the partitions of one run, in the running event loop.

    Args:
        store: Where they are.
        on_failure: Called when the store cannot be used.
    """

    def __init__(self, store: Store, on_failure: Callable[[Exception], None]) -> None:
        self._writer, self._outbox, self._on_failure = store.writer, store.outbox, on_failure
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def begin(self, partition: int, peer: Peer, query: str, after: int) -> None:
        """Begin to send *partition* what the chunks of *query* after this number have changed."""
        if self._closed:
            return
        if self._writer.is_stuck:  # the last ones cannot be read before there is room
            again = functools.partial(self.begin, partition, peer, query, after)
            with self._writer.changed:
                self._writer.when_durable(again)
            return
        task = self._loop.create_task(self._send(partition, peer, query, after))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, partition: int, peer: Peer, query: str, after: int) -> None:
        try:
            for record in self._outbox.changes(query, after, partition):
                peer.send(RECORD, record)
                if not await peer.drained():
                    return
        except (OSError, LookupError) as error:
            self._on_failure(error if isinstance(error, OSError) else OSError(str(error)))
            return
        peer.send(DONE)

    def close(self) -> None:
        """Send no more."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
