"""A store whose turns an event loop takes, as in a gateway, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.helpers import PATIENCE_S
from wallaroo.gateway.store import Store, StoreLimits

T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run *coroutine* in the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_S)

    def close(self) -> None:
        """Let transports close, then end the loop and its thread."""
        self.run(self._until_closed())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()

    async def _until_closed(self) -> None:
        """Wait until only its own pipe can wake the loop; but not for what a test leaves open."""
        selector: Any = self.loop._selector  # type: ignore[attr-defined]
        for _ in range(100):
            await asyncio.sleep(0.01)
            if len(selector.get_map()) <= 1:
                return


class StoreLoop(Loop):
    """An open store, and the loop that takes its turns.

    Args:
        directory: Where the store is.
        application: Name of its application.
        limits: Its bounds.
        on_failure: Called, in the loop, with what ends it.
    """

    def __init__(
        self,
        directory: Path,
        application: str = "",
        limits: StoreLimits = StoreLimits(),  # noqa: B008 - it cannot be changed
        on_failure: Callable[[Exception], object] = lambda _error: None,
    ) -> None:
        self._on_failure = on_failure
        self._next_turn: asyncio.TimerHandle | None = None
        self._closed = False
        super().__init__()
        try:
            self.call(lambda: self._open(directory, application, limits))
        except BaseException:
            super().close()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Call *function* in the loop and wait for its result."""

        async def called() -> T:
            return function()

        return self.run(called())

    def close(self) -> None:
        """Take no more turns, close the store, and end the loop and its thread."""
        self.call(self._close)
        super().close()

    def _open(self, directory: Path, application: str, limits: StoreLimits) -> None:
        self.store = Store(directory, application, limits, self._ask)

    def _close(self) -> None:
        self._closed = True
        if self._next_turn is not None:
            self._next_turn.cancel()
        self.store.close()

    def _ask(self) -> None:
        if threading.get_ident() == self._thread.ident:
            self.loop.call_soon(self._turn)
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self.loop.call_soon_threadsafe(self._turn)

    def _turn(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        if self._closed:
            return
        try:
            again_s = self.store.turn()
        except OSError as error:
            self._closed = True
            self._on_failure(error)
            return
        if again_s is not None:
            self._next_turn = self.loop.call_later(again_s, self._turn)


@contextlib.contextmanager
def no_syncs(store: Store) -> Iterator[None]:
    """Let the disk of *store* be so slow that nothing of it becomes durable meanwhile."""
    may_sync, sync = threading.Event(), os.fdatasync

    def slow_sync(file: int) -> None:
        may_sync.wait(PATIENCE_S)
        sync(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.writer, "_sync_s", 1.0)  # a thread waits for it, and not the loop
        patch.setattr(os, "fdatasync", slow_sync)
        try:
            yield
        finally:
            may_sync.set()
