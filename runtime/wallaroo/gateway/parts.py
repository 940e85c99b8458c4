"""Parts of a gateway that depend on its application and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wallaroo.gateway.chunks.pace import AWAITED_CHUNK_BYTES, Pace
from wallaroo.gateway.chunks.peers import PeerListener
from wallaroo.gateway.explaining import Explainer, Explaining
from wallaroo.gateway.internal_api.location import chunks_socket
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.settings import GatewaySettings
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.observability.tracing import traces_for
from wallaroo.resolution.gathered_steps import awaits, longest_wait
from wallaroo.system.tls import RenewedContext
from wallaroo.system.token_attempts import Guesses

if TYPE_CHECKING:  # needs packages that may not be installed
    from wallaroo.gateway.traces import MessageTraces

_HISTORY_BYTES = 512 * 1024**2
"""Bytes of memory that the process of a history may have; the charts' limit has room for it."""


def pace_for(application: Application, settings: GatewaySettings) -> Pace:
    """How much of *application* is under way at a time."""
    messages, wait_s = longest_wait(application)
    waits = awaits(application)
    smaller = {"chunk_bytes": AWAITED_CHUNK_BYTES} if waits else {}
    return Pace(
        **smaller,
        batch_messages=messages,
        batch_wait_s=wait_s,
        journal_bytes=settings.traffic.journal.disk_bytes // 4,
        waits_for_disk=waits,
    ).adjusted()


def chunk_listener(
    settings: GatewaySettings, token: str | None, tls: RenewedContext | None, guesses: Guesses
) -> PeerListener | None:
    """Where the processes of a real-time query connect; None if the gateway serves none.

    Args:
        settings: The gateway's settings.
        token: What they must know, over TCP.
        tls: TLS of the internal API, if it uses any.
        guesses: Attempts with wrong tokens.
    """
    if (path := chunks_socket(settings.location)) is not None:
        return PeerListener(path)
    if settings.chunks_port is None and token is None:
        return None  # without a token, anyone could connect
    host, _, _ = settings.location.partition("://")[2].rpartition(":")
    return PeerListener(None, host.strip("[]"), settings.chunks_port or 0, token, tls, guesses)


def message_traces(application: Application, outbox: Outbox, one_in: int) -> MessageTraces | None:
    """Traces of one in so many messages, if the environment asks for them."""
    if (traces := traces_for(application.name)) is None:
        return None
    from wallaroo.gateway.traces import MessageTraces

    sources = [source.name for source in application.sources]
    sinks = [sink.name for sink in application.sinks]
    return MessageTraces(traces, outbox, sources, sinks, one_in)


def explainer_for(reference: ApplicationRef, settings: GatewaySettings) -> Explainer | None:
    """Makes histories for dashboards elsewhere; None if there are to be none."""
    if not settings.histories:
        return None
    archive = settings.traffic.journal.archive
    explaining = Explaining.of(reference, settings.directory, archive, is_here=True)
    return Explainer(lambda: explaining, _HISTORY_BYTES)
