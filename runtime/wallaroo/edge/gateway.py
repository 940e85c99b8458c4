"""The gateway's process: puts journal, outbox, sources, sinks and the inner door together."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from wallaroo.edge.client import GatewayStatus, SourceStatus
from wallaroo.edge.egress import Egress
from wallaroo.edge.exclusive import hold
from wallaroo.edge.ingress import Ingress
from wallaroo.edge.journal import Journal, JournalLimits, StreamName
from wallaroo.edge.outbox import Outbox
from wallaroo.edge.service import Service
from wallaroo.errors import RuntimeFailure
from wallaroo.model.application import Application

_FLUSH_TIMEOUT_S = 30.0

log = structlog.get_logger("wallaroo.gateway")


@dataclass(frozen=True)
class GatewaySettings:
    """How a gateway is set up."""

    directory: Path
    """Directory of journal and outbox."""
    location: str
    """Where the inner door listens: `grpc+unix:///PATH` or `grpc://HOST:PORT`."""
    journal: JournalLimits = field(default_factory=JournalLimits)
    """Bounds of the journal."""
    ports: Sequence[int] = ()
    """Ports to bind, by source; where there are none, those of the application."""
    outbox_bytes: int = 1024**3
    """Bytes of undelivered outputs over which the engine waits, and so, in the end, the senders."""


class Gateway:
    """One gateway, in the running event loop.

    Args:
        application: Whose sources and sinks it serves.
        settings: How it is set up.
    """

    def __init__(self, application: Application, settings: GatewaySettings) -> None:
        self._application = application
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._bound: list[tuple[str, int]] = []

    async def start(self) -> None:
        """Bind the sources, start delivering, open the inner door.

        Raises:
            RuntimeFailure: An address cannot be bound, or the directory cannot be used.
        """
        directory = self._settings.directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            # one that is still on its end writes, and sends what this one would send, too
            self._lock = hold(directory / "gateway.lock", "is there another gateway?")
            self._outbox = Outbox(directory / "outbox.db", self._settings.outbox_bytes)
            self._journal = Journal(
                directory / "journal.db",
                self._settings.journal,
                on_room=self._on_room,
                on_failure=self._on_failure,
                on_accepted=self._on_accepted,
            )
        except (OSError, sqlite3.Error) as error:
            msg = f"the state directory {directory} cannot be used: {error}"
            raise RuntimeFailure(msg) from error
        sources = self._application.sources
        if self._settings.ports:
            sources = tuple(
                dataclasses.replace(source, port=port)
                for source, port in zip(sources, self._settings.ports, strict=True)
            )
        self._ingress = Ingress(sources, self._journal)
        self._bound = await self._ingress.listen()
        self._egresses = [
            Egress(index, sink, self._outbox) for index, sink in enumerate(self._application.sinks)
        ]
        control: dict[str, Callable[[dict[str, Any]], Any]] = {
            "status": lambda _: dataclasses.asdict(self.status()),
            "stop_accepting": lambda _: self._stop_accepting(),
            "wait_accepted": self._wait_accepted,
        }
        self._service = Service(self._settings.location, self._journal, self._outbox, control)

    def status(self) -> GatewayStatus:
        """What it has done and holds now."""
        accepted, counters = self._journal.accepted, self._outbox.counters()
        sources = tuple(
            SourceStatus(source.name, *bound, accepted.get(index, 0))
            for index, (source, bound) in enumerate(
                zip(self._application.sources, self._bound, strict=True)
            )
        )
        return GatewayStatus(
            sources=sources,
            connections=self._ingress.connections,
            backlog=self._journal.backlog,
            backlog_bytes=self._journal.disk_bytes,
            undelivered=self._outbox.undelivered,
            published=counters.get("published", 0),
            delivered=counters.get("delivered", 0),
            set_aside=counters.get("set_aside", 0),
            unknown_key=counters.get("unknown_key", 0),
            late=counters.get("late", 0),
        )

    async def run_until_ended(self) -> None:
        """Serve until `end` is called or writing fails, then close everything.

        Raises:
            RuntimeFailure: The journal could not be written.
        """
        failure = await self._ended
        await self._ingress.stop()
        for egress in self._egresses:
            egress.stop()
        self._service.shutdown()
        self._journal.close()
        await asyncio.sleep(0)  # acknowledges what the journal has written last
        await self._ingress.close()
        self._outbox.close()
        os.close(self._lock)
        if failure is not None:
            msg = f"the journal in {self._settings.directory} cannot be written: {failure}"
            raise RuntimeFailure(msg)

    def end(self, failure: Exception | None = None) -> None:
        """Let `run_until_ended` go on; for the event loop's thread."""
        if not self._ended.done():
            self._ended.set_result(failure)

    def _on_room(self) -> None:
        self._ingress.resume()

    def _on_accepted(self, marks: Mapping[StreamName, int]) -> None:
        self._ingress.accepted(marks)

    def _on_failure(self, error: Exception) -> None:
        self._loop.call_soon_threadsafe(self.end, error)

    def _wait_accepted(self, asked: dict[str, Any]) -> bool:
        names = [source.name for source in self._application.sources]
        return self._journal.wait_accepted(
            names.index(asked["source"]), asked["count"], asked["timeout_s"]
        )

    def _stop_accepting(self) -> None:
        asyncio.run_coroutine_threadsafe(self._ingress.stop(), self._loop).result()
        self._journal.flush(_FLUSH_TIMEOUT_S)
        asyncio.run_coroutine_threadsafe(self._ingress.close(), self._loop).result()


async def serve(
    application: Application, settings: GatewaySettings, on_ready: Callable[[GatewayStatus], None]
) -> None:
    """Run a gateway until SIGTERM, or until the process that started it is gone.

    Args:
        application: Whose sources and sinks it serves.
        settings: How it is set up.
        on_ready: Called once with the bound addresses.

    Raises:
        RuntimeFailure: It could not start, or could not go on.
    """
    gateway = Gateway(application, settings)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, gateway.end)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # whoever started us stops us in order
    await gateway.start()
    on_ready(gateway.status())
    await gateway.run_until_ended()
