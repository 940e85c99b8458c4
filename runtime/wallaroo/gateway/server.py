"""The gateway's process: puts journal, outbox, sources, sinks and the internal API together."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import resource
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from wallaroo.engine.gateway_api import Position
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.connectors.python_sink import PythonSinkWriter
from wallaroo.gateway.connectors.python_source import PythonSourceReader
from wallaroo.gateway.connectors.tcp.listener import TCPListener
from wallaroo.gateway.connectors.tcp.sender import TCPSender
from wallaroo.gateway.consistency.acceptance import ask_to_accept
from wallaroo.gateway.consistency.agreement import JOURNAL, OUTBOX, read_held
from wallaroo.gateway.dead_letters.actions import StoredDeadLetterActions
from wallaroo.gateway.dead_letters.policy import policies
from wallaroo.gateway.dead_letters.store import Choice, EvidenceFinder
from wallaroo.gateway.internal_api.auth import Authenticator, read_token
from wallaroo.gateway.internal_api.client import GatewayStatus, SinkStatus, SourceStatus
from wallaroo.gateway.internal_api.endpoint import Endpoint
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.internal_api.service import Service
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.settings import GatewaySettings
from wallaroo.gateway.startup import once_there_is_room, take
from wallaroo.metrics import catalogue
from wallaroo.metrics.exposition import exposition
from wallaroo.metrics.samples import Sample, to_json
from wallaroo.model.application import (
    Application,
    CustomSink,
    CustomSource,
    Sink,
    Source,
    TCPSink,
    TCPSource,
)
from wallaroo.observability.health import Health, HealthServer
from wallaroo.observability.tracing import traces_for

if TYPE_CHECKING:  # needs packages that may not be there
    from wallaroo.gateway.traces import MessageTraces

_FLUSH_TIMEOUT_S = 30.0
_TURN_S = 5.0
"""Seconds after which a probe does not wait any longer for a loop or a disk."""

_ANSWER_S = 2.0
"""Seconds that calls under way have to end at a stop: longer than one that waits for messages."""

log = structlog.get_logger("wallaroo.gateway")


class Gateway:
    """One gateway, in the running event loop.

    Args:
        application: Whose sources and sinks it serves.
        settings: How it is set up.

    Raises:
        UsageError: Files that *settings* name cannot be used, or an error policy is not valid.
    """

    def __init__(self, application: Application, settings: GatewaySettings) -> None:
        self._application = application
        self._settings = settings
        self._token = None if settings.token_file is None else read_token(settings.token_file)
        self._certificate = settings.tls.at_door()
        self._source_tls = settings.traffic.source_tls.serving()
        self._sink_tls = settings.traffic.sink_tls.connecting()
        self._policies = policies(settings.traffic.on_error, application)
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._bound: dict[int, tuple[str, int]] = {}
        self._feeders: dict[int, PythonSourceReader] = {}
        self._stopping = False
        self._starts_again = False

    async def start(self) -> None:
        """Bind the sources, start delivering, open the internal API.

        Raises:
            RuntimeFailure: An address cannot be bound, or the directory cannot be used.
        """
        directory = self._settings.directory
        await self._once_there_is_room(self._open)
        sources = self._application.sources
        if self._settings.ports:
            sources = tuple(
                dataclasses.replace(source, port=port) if isinstance(source, TCPSource) else source
                for source, port in zip(sources, self._settings.ports, strict=True)
            )
        self._ingress = TCPListener(
            sources, self._journal, self._settings.traffic.sources, self._source_tls
        )
        await self._once_there_is_room(self._desk.finish_replays)
        self._bound = await self._ingress.listen()
        self._feeders = {
            index: PythonSourceReader(index, source, self._journal)
            for index, source in enumerate(self._application.sources)
            if isinstance(source, CustomSource)
        }
        self._egresses = [
            self._egress(index, sink) for index, sink in enumerate(self._application.sinks)
        ]
        control: dict[str, Callable[[dict[str, Any]], Any]] = {
            "status": lambda _: dataclasses.asdict(self.status()),
            "samples": lambda _: to_json(self.samples()),
            "hot_keys": lambda _: self._outbox.hot_keys(),
            "stop_accepting": lambda _: self._stop_accepting(),
            "wait_accepted": self._wait_accepted,
            "letters": self._letters,
            "letter_origins": lambda _: self._desk.letter_origins(),
            "drop_letters": lambda asked: self._desk.drop_letters(Choice.from_json(asked)),
            "replay_letters": lambda asked: self._desk.replay_letters(Choice.from_json(asked)),
            "claim": self._claim,
            "renew": lambda _: self._claims.renew(),
            "release": lambda _: self._claims.release(),
            "held": lambda _: read_held(directory).to_json(),
            "accept_lost": self._accept_lost,
        }
        guard = Authenticator(self._token, self._claims)
        location = self._settings.location
        judge = EvidenceFinder(self._application, self._journal, self._policies)
        self._followed = self._follow()
        self._service = Service(
            location,
            self._journal,
            self._outbox,
            control,
            guard,
            judge,
            self._followed,
            self._certificate,
        )
        door = Endpoint(location, self._token)
        await self._once_there_is_room(functools.partial(door.write, directory))
        self._health = None
        if self._settings.health is not None:
            probes = {"/healthz": self._alive, "/readyz": self._accepting}
            self._health = HealthServer(
                self._settings.health,
                probes,
                lambda: dataclasses.asdict(self.status()),
                lambda: exposition(self.samples()),
            )

    def _open(self) -> None:
        """Open journal and outbox: both, or none."""
        settings = self._settings
        with contextlib.ExitStack() as opened:
            self._lock = take(settings.directory, self._application.name)
            opened.callback(os.close, self._lock)
            self._claims = Leases(settings.directory / "claim.json")
            self._outbox = Outbox(
                settings.directory / OUTBOX, settings.outbox_bytes, settings.letters
            )
            opened.callback(self._outbox.close)
            with self._outbox.letters() as letters:
                letters.note_origins(self._application)
            self._journal = Journal(
                settings.directory / JOURNAL,
                settings.traffic.journal,
                on_room=self._on_room,
                on_failure=self._on_failure,
                on_accepted=self._on_accepted,
            )
            opened.pop_all()
        self._desk = StoredDeadLetterActions(self._outbox, self._journal)

    async def _once_there_is_room(self, act: Callable[[], None]) -> None:
        await once_there_is_room(self._settings.directory, act, self._ended)

    def status(self) -> GatewayStatus:
        """What it has done and holds now."""
        counters = self._outbox.counters()
        backlog, waited_s = self._journal.waiting()
        sources = tuple(
            self._source_status(index, source, backlog.get(index, 0))
            for index, source in enumerate(self._application.sources)
        )
        return GatewayStatus(
            sources=sources,
            sinks=tuple(
                SinkStatus(sink.name, sink.where, egress.problem)
                for sink, egress in zip(self._application.sinks, self._egresses, strict=True)
            ),
            connections=self._ingress.connections,
            backlog=self._journal.backlog,
            backlog_bytes=self._journal.disk_bytes,
            waited_s=waited_s,
            undelivered=self._outbox.undelivered,
            waits_for_time=self._journal.wakes,
            published=counters.get("published", 0),
            delivered=counters.get("delivered", 0),
            set_aside=counters.get("set_aside", 0),
            unknown_key=counters.get("unknown_key", 0),
            late=counters.get("late", 0),
            dead_letters=counters["letters"],
            dead_letters_gone=counters["letters_gone"],
        )

    def samples(self) -> list[Sample]:
        """The same in figures, and those of the batches that it has published."""
        status, application = self.status(), self._application
        pipelines = [
            [pipeline.name for pipeline in application.pipelines if pipeline.source is source]
            for source in application.sources
        ]
        samples = [
            Sample(catalogue.BACKLOG_BYTES, (), status.backlog_bytes),
            Sample(catalogue.BACKLOG_SECONDS, (), status.waited_s),
            Sample(catalogue.CONNECTIONS, (), status.connections),
        ]
        for source in status.sources:
            samples.append(Sample(catalogue.SOURCE_MESSAGES, (source.name,), source.accepted))
            samples.append(Sample(catalogue.BACKLOG_MESSAGES, (source.name,), source.backlog))
        by_sink = self._outbox.by_sink()
        for index, sink in enumerate(application.sinks):
            delivered, waiting = by_sink.get(index, (0, 0))
            samples.append(Sample(catalogue.SINK_MESSAGES, (sink.name,), delivered))
            samples.append(Sample(catalogue.SINK_WAITING, (sink.name,), waiting))
        return samples + self._outbox.figures(pipelines)

    async def run_until_ended(self) -> bool:
        """Serve until `end` is called or writing fails, then close everything.

        Returns:
            Whether a gateway is to be started in its place.

        Raises:
            RuntimeFailure: Journal or outbox could not be used.
        """
        failure = await self._ended
        self._stopping = True
        await self._ingress.stop()
        for feeder in self._feeders.values():
            feeder.stop()
        for egress in self._egresses:
            egress.stop()
        if not await self._end_calls() and failure is None:
            await self._leave()
        if self._followed is not None:
            self._followed.close()
        if self._health is not None:
            self._health.close()
        self._journal.close()
        await asyncio.sleep(0)  # acknowledges what the journal has written last
        await self._ingress.close()
        self._outbox.close()
        os.close(self._lock)
        if failure is not None:
            msg = f"the state directory {self._settings.directory} cannot be used: {failure}"
            raise RuntimeFailure(msg)
        return self._starts_again

    async def _end_calls(self) -> bool:
        """Answer no more; returns whether all calls under way have ended."""
        ending = threading.Thread(target=self._service.shutdown, daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, _ANSWER_S)
        return not ending.is_alive()

    async def _leave(self) -> None:
        """End the process, whatever calls are under way.

        A task reads its part of a batch for as long as it works on it. Senders would be refused all
        that time; so the call breaks off, as where a gateway is killed, and the task continues it
        with the next gateway.
        """
        await asyncio.to_thread(self._journal.flush, _FLUSH_TIMEOUT_S)
        await asyncio.sleep(0)  # acknowledges what the journal has written last
        await self._ingress.close()
        log.info("calls broken off", waited_s=_ANSWER_S)
        os._exit(0)

    def end(self, failure: Exception | None = None) -> None:
        """Let `run_until_ended` go on; for the event loop's thread."""
        if not self._ended.done():
            self._ended.set_result(failure)

    def _follow(self) -> MessageTraces | None:
        """Follow some messages, where that is asked for."""
        traces = traces_for(self._application.name)
        if traces is None:
            return None
        from wallaroo.gateway.traces import MessageTraces

        return MessageTraces(
            traces,
            self._journal,
            self._outbox,
            [source.name for source in self._application.sources],
            [sink.name for sink in self._application.sinks],
            self._settings.traffic.trace_one_in,
        )

    def _egress(self, index: int, sink: Sink) -> TCPSender | PythonSinkWriter:
        if isinstance(sink, TCPSink):
            return TCPSender(index, sink, self._outbox, self._on_failure, self._sink_tls)
        assert isinstance(sink, CustomSink)
        return PythonSinkWriter(index, sink, self._outbox)

    def _source_status(self, index: int, source: Source, backlog: int) -> SourceStatus:
        accepted = self._journal.accepted.get(index, 0)
        if (feeder := self._feeders.get(index)) is not None:
            return SourceStatus(
                source.name,
                source.where,
                accepted,
                backlog,
                feeder.ended,
                feeder.failures,
                feeder.problem,
            )
        host, port = self._bound[index]
        return SourceStatus(source.name, f"{host}:{port}", accepted, backlog)

    def _on_room(self) -> None:
        self._ingress.resume()

    def _on_accepted(self, marks: Mapping[StreamName, int]) -> None:
        self._ingress.accepted(marks)

    def _on_failure(self, error: Exception) -> None:
        self._loop.call_soon_threadsafe(self.end, error)

    def _alive(self) -> Health:
        """Whether the event loop, which serves all sockets, takes its turns."""
        try:
            asyncio.run_coroutine_threadsafe(_turn(), self._loop).result(_TURN_S)
        except TimeoutError:
            return Health(False, f"the sockets' loop took no turn in {_TURN_S:.0f} s")
        return Health(True, "alive")

    def _accepting(self) -> Health:
        """Whether what senders send reaches the disk."""
        if self._stopping:
            return Health(False, "stopping: the sources are closed")
        if not self._journal.flush(_TURN_S):
            return Health(False, f"the journal's disk took nothing in {_TURN_S:.0f} s")
        return self._alive()

    def _wait_accepted(self, asked: dict[str, Any]) -> bool:
        names = [source.name for source in self._application.sources]
        return self._journal.wait_accepted(
            names.index(asked["source"]), asked["count"], asked["timeout_s"]
        )

    def _letters(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        found = self._desk.letters(Choice.from_json(asked), asked["most"])
        return [letter.to_json() for letter in found]

    def _claim(self, asked: dict[str, Any]) -> dict[str, Any]:
        number = self._claims.claim(asked["holder"])
        log.info("claimed", driver=asked["holder"], claim=number)
        return {"number": number}

    def _accept_lost(self, asked: dict[str, Any]) -> None:
        """Go on from a checkpoint's position, by way of a new start."""
        ask_to_accept(self._settings.directory, Position(**asked))
        self._starts_again = True
        self._loop.call_soon_threadsafe(self.end)

    def _stop_accepting(self) -> None:
        asyncio.run_coroutine_threadsafe(self._ingress.stop(), self._loop).result()
        for feeder in self._feeders.values():
            feeder.stop()
        self._journal.flush(_FLUSH_TIMEOUT_S)
        asyncio.run_coroutine_threadsafe(self._ingress.close(), self._loop).result()


async def _turn() -> None:
    """A turn of the event loop."""


async def serve(
    application: Application,
    settings: GatewaySettings,
    on_ready: Callable[[GatewayStatus], None],
    stop_signals: Sequence[signal.Signals] = (signal.SIGTERM,),
) -> None:
    """Run a gateway until it is told to stop.

    Args:
        application: Whose sources and sinks it serves.
        settings: How it is set up.
        on_ready: Called once with the bound addresses.
        stop_signals: Signals that stop it; SIGINT, where it is not among them, is ignored.

    Raises:
        RuntimeFailure: It could not start, or could not go on.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each connection takes one
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    goes_on = True
    while goes_on:
        gateway = Gateway(application, settings)
        for stop in stop_signals:
            loop.add_signal_handler(stop, gateway.end)
        await gateway.start()
        on_ready(gateway.status())
        goes_on = await gateway.run_until_ended()
