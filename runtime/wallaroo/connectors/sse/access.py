"""Access control for the viewers of a sink."""

from __future__ import annotations

import math
import secrets

from starlette.requests import Request

from wallaroo.connectors.http.requests import Unacceptable
from wallaroo.connectors.sse.resolve import SSESink
from wallaroo.gateway.http.origins import Origins, name_in
from wallaroo.system.token_attempts import Guesses


class Access:
    """Decides on requests by path, method, origin, host and token.

    Args:
        sink: The sink.
        token: What viewers must send; None for nothing.
        tls: Whether connections are encrypted.
    """

    def __init__(self, sink: SSESink, token: str | None, *, tls: bool) -> None:
        self._sink = sink
        self._origins = Origins(sink.origins, sink.host, secure=tls or token is not None)
        self._token = None if token is None else token.encode()
        self._guesses = Guesses()

    def headers(self, request: Request) -> dict[str, str]:
        """Headers by which a browser lets the page that asks read the answer."""
        return self._origins.headers(request.headers.get("origin"))

    def check(self, request: Request) -> None:
        """Let *request* pass.

        Raises:
            Unacceptable: It may not read the events.
        """
        if request.url.path != self._sink.path:
            raise Unacceptable(
                404, f"There is nothing at this path; the events are at {self._sink.path}."
            )
        if request.method not in {"GET", "OPTIONS"}:
            raise Unacceptable(405, "Read the events by GET.", {"Allow": "GET, OPTIONS"})
        self._check_page(request)
        if request.method == "GET" and self._token is not None:
            self._check_token(request, self._token)

    def _check_page(self, request: Request) -> None:
        """Refuse pages of other sites, also those under a name that resolves to this address."""
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        if origin is None:
            if not self._origins.know(host):
                name = name_in(host)[:200]
                reason = (
                    f"This sink is not called {name!r}: add 'http://{name}' to its origins, or let "
                    "it require a token (token_file)."
                )
                raise Unacceptable(403, reason)
        elif not (self._origins.allow(origin) or self._origins.are_own(origin, host)):
            page = origin[:200] or "an empty origin"
            raise Unacceptable(403, f"Pages of {page} may not read these events.")

    def _check_token(self, request: Request, token: bytes) -> None:
        given = request.query_params.get("token", "")
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            given = credentials.strip()
        if secrets.compare_digest(given.encode(), token):
            return  # whoever shares its address
        if given:
            peer = request.client.host if request.client is not None else ""
            if wait_s := self._guesses.wait_s(peer):
                wait = math.ceil(wait_s)
                reason = f"Too many wrong tokens came from {peer}: try again in {wait} s."
                raise Unacceptable(429, reason, {"Retry-After": str(wait)})
            self._guesses.note_wrong(peer, "the token is not this sink's", sink=self._sink.name)
            reason = "The token is wrong."
        else:
            reason = "A token is required: as Authorization: Bearer TOKEN, or as ?token=TOKEN."
        raise Unacceptable(401, reason, {"WWW-Authenticate": "Bearer"})
