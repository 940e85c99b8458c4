"""The gateway's process: puts the store, sources, sinks and the internal API together."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import resource
import signal
import threading
from collections.abc import Callable, Sequence

import structlog

from wallaroo.errors import DamagedFile, RuntimeFailure
from wallaroo.gateway.archiver import Archiver
from wallaroo.gateway.certificates import Certificates
from wallaroo.gateway.chunks.server import ChunkServer
from wallaroo.gateway.connector import ConnectorContext, SinkConnector, Times
from wallaroo.gateway.connectors import SourceConnectors, open_sink
from wallaroo.gateway.consistency.acceptance import accept_if_asked, is_asked
from wallaroo.gateway.control import Control
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.dead_letters.actions import StoredDeadLetterActions
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.dead_letters.letter_outputs import LetterOutputs
from wallaroo.gateway.dead_letters.policy import OUTPUTS, Policy, policies
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.internal_api.location import Endpoint
from wallaroo.gateway.internal_api.service import Service
from wallaroo.gateway.internal_api.status import WAITING, GatewayStatus
from wallaroo.gateway.marks import remove_mark
from wallaroo.gateway.monitoring import Monitor
from wallaroo.gateway.parts import chunk_listener, explainer_for, message_traces, pace_for
from wallaroo.gateway.probes import STARTING, Probes
from wallaroo.gateway.reading import check_application
from wallaroo.gateway.settings import GatewaySettings
from wallaroo.gateway.startup import once_it_is_free, once_there_is_room, take
from wallaroo.gateway.store import Store, StoreLimits
from wallaroo.gateway.tables import Tables
from wallaroo.gateway.turns import turns_of
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.system.credentials import read_token
from wallaroo.system.token_attempts import Guesses

_FLUSH_TIMEOUT_S = 30.0
_ANSWER_S = 2.0
"""Seconds that calls in progress have to end at a stop."""

log = structlog.get_logger("wallaroo.gateway")


class Gateway:
    """One gateway, in the running event loop.

    Args:
        application: The application whose sources and sinks it serves.
        settings: Its settings.
        times: See `ConnectorContext`.
        reference: How other processes import the application.

    Raises:
        UsageError: Files that *settings* name cannot be used, or an error policy is not valid.
    """

    def __init__(
        self,
        application: Application,
        settings: GatewaySettings,
        times: Times,
        reference: ApplicationRef,
    ) -> None:
        self._application, self._settings, self._times = application, settings, times
        self._explainer = explainer_for(reference, settings)
        self._token = None if settings.token_file is None else read_token(settings.token_file)
        self._guesses = Guesses()
        self._certificates = Certificates(settings)
        self._policies = policies(settings.traffic.on_error, application)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._next_turn: asyncio.TimerHandle | None = None
        """The turn of the store that comes if none is asked for before."""
        self._closed = False
        self._ended = self._loop.create_future()
        self._restarts = False
        self._chunks: ChunkServer | None = None
        """Serves a real-time query; None if there is to be none."""

    async def start(self) -> bool:
        """Bind the sources, start delivering, open the internal API.

        Returns:
            Whether it has: one that was stopped while another gateway had the directory has not.

        Raises:
            RuntimeFailure: An address cannot be bound, or the directory cannot be used.
        """
        self._probes = Probes(self._settings.health)
        with contextlib.ExitStack() as failing:
            failing.callback(self._probes.close)
            if self._settings.takes_over and not await self._takes_over():
                return False
            await self._open()
            failing.pop_all()
        self._probes.serving(self._journal, self._monitor)
        return True

    async def _takes_over(self) -> bool:
        """Wait until no other gateway has the directory; False if this one is stopped before."""
        directory = self._settings.directory
        await once_it_is_free(directory, self._be_ready_to_take_over, self._ended)
        self._probes.starting = STARTING
        return not self._ended.done()

    async def _open(self) -> None:
        settings = self._settings
        await self._when_there_is_room(self._open_store)
        replays = StoredDeadLetterActions(self._outbox, self._journal)
        await asyncio.to_thread(replays.finish_replays)
        await self._open_connectors()
        await self._open_internal_api()
        endpoint = Endpoint(settings.location, self._token)
        await self._when_there_is_room(functools.partial(endpoint.write, settings.directory))
        self._renewing = self._loop.create_task(self._certificates.renew())
        self._archiver: Archiver | None = None
        if (archive := settings.traffic.journal.archive) is not None:
            self._archiver = Archiver(settings.directory / LOG, archive)
            self._archiver.start()

    def _open_store(self) -> None:
        """Lock the directory, and open what is stored there: both, or neither."""
        settings = self._settings
        with contextlib.ExitStack() as opened:
            self._lock = take(settings.directory)
            opened.callback(os.close, self._lock)
            self._leases = Leases(settings.directory / "claim.json")
            if is_asked(settings.directory):  # to resume without what the log had
                remove_mark(settings.directory / LOG)
            self._store = Store(
                settings.directory,
                self._application.name,
                StoreLimits(settings.traffic.journal, settings.outbox_bytes, settings.letters),
                self._ask_for_turn,
                sources=[source.name for source in self._application.sources],
                sinks=[sink.name for sink in self._application.sinks],
                skip_damaged=settings.traffic.skip_damaged,
            )
            opened.callback(self._store.close)
            accept_if_asked(settings.directory, self._store)
            self._journal, self._outbox = self._store.journal, self._store.outbox
            self._outbox.letter_outputs = LetterOutputs(self._application)
            self._outbox.refusals = self._policies.get(OUTPUTS, Policy.SET_ASIDE)
            with self._outbox.letters.transaction() as letters:
                letters.note_origins(self._application)
            opened.pop_all()

    def _ask_for_turn(self) -> None:
        """Let the loop take a turn of the store; for any thread."""
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._turn)
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._turn)

    def _turn(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        if self._closed:
            return
        try:
            again_s = self._store.turn()
        except Exception as error:  # else messages would wait for good
            self.end(error)
            return
        if again_s is not None:
            self._next_turn = self._loop.call_later(again_s, self._turn)

    async def _open_connectors(self) -> None:
        """Listen, read, and deliver."""
        settings = self._settings
        tables = Tables(self._application)
        context = ConnectorContext(
            self._journal,
            self._outbox,
            settings.traffic.sources,
            self._certificates.of_sources,
            self._certificates.of_sinks,
            turns_of(self._application, self._journal.silence, tables),
            tables,
            self._times,
            self._application.name,
            self._on_failure,
        )
        sources, sinks = self._application.sources, self._application.sinks
        for name in self._journal.unread(source.name for source in sources):
            log.warning(
                "position not used",
                source=name,
                reason="the application has no source of that name",
                effect="the position is kept; a source that is new begins at its start",
            )
        if settings.ports:
            of_sources, of_sinks = settings.ports[: len(sources)], settings.ports[len(sources) :]
            sources = tuple(s.at_port(port) for s, port in zip(sources, of_sources, strict=True))
            sinks = tuple(s.at_port(port) for s, port in zip(sinks, of_sinks, strict=True))
        if settings.traffic.on_lost == "skip":
            sources = tuple(source.skipping_lost() for source in sources)
            sinks = tuple(sink.skipping_lost() for sink in sinks)
        self._sources = SourceConnectors(context, sources)
        self._journal.on_room = self._sources.on_room
        self._journal.on_accepted = self._sources.on_accepted
        await self._sources.start()
        self._sinks: list[SinkConnector] = [
            open_sink(context, index, sink) for index, sink in enumerate(sinks)
        ]
        self._monitor = Monitor(
            self._application,
            self._journal,
            self._outbox,
            self._sources,
            self._sinks,
            tables,
            self._store.archiving,
        )
        self._telling = self._loop.create_task(self._monitor.tell_of_tables())

    async def _open_internal_api(self) -> None:
        settings, tls = self._settings, self._certificates.of_internal_api
        one_in = settings.traffic.trace_one_in
        self._traces = message_traces(self._application, self._outbox, one_in)
        evidence = EvidenceFinder(self._application, self._journal, self._policies)
        listener = chunk_listener(settings, self._token, tls, self._guesses)
        if listener is not None:
            self._chunks = ChunkServer(
                listener,
                self._store,
                self._leases,
                evidence,
                pace_for(self._application, settings),
                self._on_failure,
                self._traces,
                self._application.wiring,
            )
            await self._chunks.start()
        control = Control(
            self._application,
            settings.directory,
            self._store,
            self._leases,
            self._monitor,
            self._stop_accepting,
            self._restart,
            None if listener is None else listener.port,
            self._explainer,
        )
        self._service = Service(
            settings.location,
            control.actions(),
            Authenticator(self._token, self._leases, self._guesses),
            tls,
        )

    def _be_ready_to_take_over(self) -> None:
        """Be ready while another gateway serves: Kubernetes ends that one only then.

        Raises:
            RuntimeFailure: The application lacks a source or sink for which something waits.
            DamagedFile: The log is not as it was written.
        """
        check_application(self._settings.directory / LOG, self._application)
        self._probes.starting = WAITING

    async def _when_there_is_room(self, act: Callable[[], None]) -> None:
        await once_there_is_room(self._settings.directory, act, self._ended)

    def status(self) -> GatewayStatus:
        """What it has done and holds now."""
        return self._monitor.status()

    async def run_until_ended(self) -> bool:
        """Serve until `end` is called or writing fails, then close everything.

        Returns:
            Whether a gateway is to be started in its place.

        Raises:
            RuntimeFailure: Journal or outbox could not be used.
            DamagedFile: One of them is not as it was written.
        """
        failure = await self._ended
        self._probes.stopping = True
        if self._explainer is not None:
            self._explainer.stop()
        self._telling.cancel()
        self._renewing.cancel()
        await self._sources.stop()
        await asyncio.gather(*(asyncio.to_thread(sink.stop) for sink in self._sinks))
        if self._chunks is not None:
            self._chunks.close()
        if not await self._end_calls() and failure is None:
            await self._leave()
        if self._traces is not None:
            self._traces.close()
        self._probes.close()
        if self._archiver is not None:
            self._archiver.stop()
        self._closed = True
        self._store.close()
        await asyncio.sleep(0)  # acknowledges what was written last
        await self._sources.close()
        os.close(self._lock)
        if isinstance(failure, DamagedFile):
            raise failure
        if failure is not None:
            msg = f"the state directory {self._settings.directory} cannot be used: {failure}"
            raise RuntimeFailure(msg)
        return self._restarts

    async def _end_calls(self) -> bool:
        """Answer no more calls; returns whether all calls in progress have ended."""
        self._journal.end_waits()
        ending = threading.Thread(target=self._service.shutdown, name="last-calls", daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, _ANSWER_S)
        return not ending.is_alive()

    async def _leave(self) -> None:
        """End the process, whatever calls are in progress.

        Senders would be refused for as long as it waits. The calls break off, as they do when a
        gateway is killed, and their callers repeat them to the next one.
        """
        await asyncio.to_thread(self._journal.flush, _FLUSH_TIMEOUT_S)
        await asyncio.sleep(0)  # acknowledges what the journal has written last
        await self._sources.close()
        log.info("calls interrupted", waited_s=_ANSWER_S)
        os._exit(0)

    def end(self, failure: Exception | None = None) -> None:
        """Let `run_until_ended` continue; for the event loop's thread."""
        if not self._ended.done():
            self._ended.set_result(failure)

    def _on_failure(self, error: Exception) -> None:
        self._loop.call_soon_threadsafe(self.end, error)

    def _restart(self) -> None:
        self._restarts = True
        self._loop.call_soon_threadsafe(self.end)

    def _stop_accepting(self) -> None:
        asyncio.run_coroutine_threadsafe(self._sources.stop(), self._loop).result()
        self._journal.flush(_FLUSH_TIMEOUT_S)
        asyncio.run_coroutine_threadsafe(self._sources.close(), self._loop).result()


async def serve(
    application: Application,
    settings: GatewaySettings,
    times: Times,
    reference: ApplicationRef,
    on_ready: Callable[[GatewayStatus], None],
    stop_signals: Sequence[signal.Signals] = (signal.SIGTERM,),
) -> None:
    """Run a gateway until it is stopped.

    Args:
        application: Whose sources and sinks it serves.
        settings: How it is set up.
        times: See `ConnectorContext`.
        reference: How other processes import the application.
        on_ready: Called once with the bound addresses.
        stop_signals: Signals that stop it; SIGINT is ignored unless it is one of them.

    Raises:
        RuntimeFailure: It could not start, or could not continue.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each connection takes one
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    serving = True
    while serving:
        gateway = Gateway(application, settings, times, reference)
        for stop in stop_signals:
            loop.add_signal_handler(stop, gateway.end)
        if not await gateway.start():
            return
        on_ready(gateway.status())
        serving = await gateway.run_until_ended()
