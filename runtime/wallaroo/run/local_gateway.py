"""The gateway of a run on one machine: how it is set up, and the process."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from wallaroo.engine.realtime.placement import is_local
from wallaroo.engine.settings import EngineSettings
from wallaroo.errors import UsageError
from wallaroo.gateway.internal_api.location import UNIX, location_of
from wallaroo.gateway.settings import GatewaySettings
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.model.endpoints import Sink, Source
from wallaroo.run.gateway_process import reserved_ports
from wallaroo.run.settings import GatewayProcessSettings, LocalSettings, host_and_port
from wallaroo.system.credentials import (
    AUTHORITIES_VARIABLE,
    TOKEN_FILE_VARIABLE,
    read_token,
)
from wallaroo.system.tls import TLSFiles

Command = Callable[[GatewayProcessSettings], Sequence[str]]
"""Returns the command that starts a gateway as a child of this process."""

_SOCKET, _MAX_SOCKET_PATH = "gateway.sock", 107
"""Name of the gateway's socket, and the maximum length of its path in bytes."""


class LocalGateway:
    """The gateway of a run.

    Args:
        settings: How the application is run.
        command: Starts the gateway.
        directory: The state directory.
        scratch: Directory for its socket and its token.
        stack: Keeps ports reserved.
    """

    def __init__(
        self,
        settings: LocalSettings,
        command: Command,
        directory: Path,
        scratch: Path,
        stack: contextlib.ExitStack,
    ) -> None:
        self._run, self._command, self._stack = settings, command, stack
        self._settings = _settings(settings, directory, scratch)
        self._ports: dict[tuple[type, str], int] = {}
        """Ports that the system has chosen, by the class and the name of the source or sink."""

    @property
    def location(self) -> str:
        """Location of its internal API."""
        return self._settings.location

    def credentials(self) -> dict[str, str]:
        """The environment variables with the credentials for it, on this machine."""
        variables = {}
        if (file := self._settings.token_file) is not None:
            variables[TOKEN_FILE_VARIABLE] = str(file)
        if self._run.gateway_tls is not None:
            variables[AUTHORITIES_VARIABLE] = str(self._run.gateway_tls.authorities)
        return variables

    def with_credentials(self, engine: EngineSettings) -> EngineSettings:
        """*engine* with the credentials for its workers.

        Those on other machines do not have the token's file. Java would show the token if it was in
        their environment, so it comes with what they are to do.
        """
        variables = self.credentials()
        if is_local(engine.master) or self._settings.token_file is None:
            return replace(engine, environment=variables)
        del variables[TOKEN_FILE_VARIABLE]
        token = read_token(self._settings.token_file)
        return replace(engine, environment=variables, token=token)

    def command(self, reference: ApplicationRef, application: Application) -> Sequence[str]:
        """The command of the process; what listens keeps the ports that the system has chosen.

        Args:
            reference: The application, as the process is to import it.
            application: The same.
        """
        endpoints: list[Source | Sink] = [*application.sources, *application.sinks]
        fresh = [one for one in endpoints if _key(one) not in self._ports]
        reserved = self._stack.enter_context(reserved_ports(fresh))
        for endpoint, port in zip(fresh, reserved, strict=True):
            if endpoint.address is not None and endpoint.address[1] == 0:
                self._ports[_key(endpoint)] = port
        ports = [
            self._ports.get(_key(one), 0)
            if one.address is None or one.address[1] == 0
            else one.address[1]
            for one in endpoints
        ]
        return self._command(
            GatewayProcessSettings(
                application=reference,
                gateway=replace(self._settings, ports=ports),
                log_level=self._run.log_level,
            )
        )


def check_socket_path(scratch: Path) -> None:
    """Refuse a directory whose path is too long for sockets in it.

    Raises:
        UsageError: It is.
    """
    if len(os.fsencode(scratch / _SOCKET)) > _MAX_SOCKET_PATH:
        msg = (
            f"the path of the temporary directory, {scratch.parent}, is too long for Unix sockets: "
            "set the environment variable TMPDIR to a shorter one, such as /tmp"
        )
        raise UsageError(msg)


def _key(endpoint: Source | Sink) -> tuple[type, str]:
    return type(endpoint), endpoint.name


def _settings(settings: LocalSettings, directory: Path, scratch: Path) -> GatewaySettings:
    location, token_file, tls = f"{UNIX}{scratch / _SOCKET}", None, TLSFiles()
    if settings.gateway is not None:
        if settings.gateway_tls is not None:
            tls = TLSFiles(settings.gateway_tls.certificate, settings.gateway_tls.key)
        location = location_of(
            host_and_port(settings.gateway), secret=settings.gateway_tls is not None
        )
        token_file = scratch / "token"
        token_file.touch(mode=0o600)
        token_file.write_text(secrets.token_urlsafe(32))
    return GatewaySettings(
        directory,
        location,
        token_file,
        tls,
        traffic=settings.traffic,
        call_limit_s=settings.engine.call_limit_s,
    )
