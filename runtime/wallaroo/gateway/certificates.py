"""TLS of a gateway, with certificates that are renewed while it runs."""

from __future__ import annotations

import asyncio

import structlog

from wallaroo.errors import UsageError
from wallaroo.gateway.settings import GatewaySettings

_RENEW_S = 30.0
"""Seconds between looks whether certificates were renewed; Kubernetes takes a minute itself."""

log = structlog.get_logger("wallaroo.gateway")


class Certificates:
    """The TLS contexts of a gateway; each is None where it uses no TLS.

    Raises:
        UsageError: Files that *settings* name are invalid.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self.of_internal_api = settings.tls.for_internal_api()
        self.of_sources = settings.traffic.source_tls.serving()
        self.of_sinks = settings.traffic.sink_tls.connecting()

    async def renew(self) -> None:
        """Use the files of certificates whenever they were replaced, until it is cancelled."""
        contexts = [*filter(None, (self.of_internal_api, self.of_sources, self.of_sinks))]
        while contexts:
            await asyncio.sleep(_RENEW_S)
            for context in contexts:
                name = str(context.files.certificate or context.files.authorities)
                try:
                    if await asyncio.to_thread(context.renew):
                        log.info("certificate renewed", file=name)
                except UsageError as error:
                    log.warning("certificate not renewed", file=name, reason=str(error))
