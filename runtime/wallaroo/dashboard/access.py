"""Access control for the dashboard: the names by which it is reached, and its token."""

from __future__ import annotations

import base64
import binascii
import hmac
import math
from collections.abc import Collection

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from wallaroo.gateway.http.origins import may_be_ours, name_in
from wallaroo.observability.logs import Repeats
from wallaroo.system.token_attempts import Attempts

_CHALLENGE = 'Basic realm="the dashboard: any name, and its token as the password"'

log = structlog.get_logger("wallaroo.dashboard")


class AccessRefused(Exception):
    """A request is refused, with a status, a sentence and headers of the response."""

    def __init__(self, status: int, reason: str, headers: dict[str, str]) -> None:
        super().__init__(reason)
        self.response = PlainTextResponse(reason, status, headers)


class TokenGate:
    """Compares tokens, and slows down and logs who shows wrong ones.

    Args:
        token: The token.
        pace: How often a peer may be wrong.
    """

    def __init__(self, token: str, pace: Attempts | None = None) -> None:
        self._token = token.encode()
        self._pace = pace or Attempts()
        self._repeats = Repeats()

    def check(self, request: Request) -> None:
        """Let *request* pass if it has the token, as a bearer token or a basic password.

        Raises:
            Refused: It has none or a wrong one, or its peer has shown too many wrong ones.
        """
        header = request.headers.get("Authorization", "")
        shown = _shown(header)
        challenge = "Bearer" if header[:7].lower() == "bearer " else _CHALLENGE
        if shown is None:
            raise AccessRefused(401, "authentication required", {"WWW-Authenticate": challenge})
        peer = request.client.host if request.client else ""
        if hmac.compare_digest(shown, self._token):
            return  # whoever shares its address
        if wait_s := self._pace.wait_s(peer):
            wait = math.ceil(wait_s)
            reason = f"too many wrong tokens came from {peer}: try again in {wait} s"
            raise AccessRefused(429, reason, {"Retry-After": str(wait)})
        self._pace.note_wrong(peer)
        if self._repeats.show(peer):
            log.warning("wrong token", peer=peer, path=request.url.path)
        raise AccessRefused(401, "invalid token", {"WWW-Authenticate": challenge})


def check_change(request: Request, gate: TokenGate | None) -> None:
    """Let *request*, which changes something, pass if it has the token as a bearer token.

    Raises:
        Refused: It has not, or there is no token.
    """
    if gate is None:
        raise AccessRefused(403, "the dashboard is read-only: it was started without a token", {})
    if request.headers.get("Authorization", "")[:7].lower() != "bearer ":
        # browsers send basic passwords for pages of other sites, too
        raise AccessRefused(401, "invalid token", {"WWW-Authenticate": "Bearer"})
    gate.check(request)


class Access:
    """Refuses requests before anything else is done with them; middleware.

    Args:
        app: What is called for requests that may pass.
        local: Whether the dashboard listens on the loopback address.
        names: Further names that the dashboard may be called by.
        gate: Compares tokens; None where reading requires none.
    """

    def __init__(
        self, app: ASGIApp, local: bool, names: Collection[str], gate: TokenGate | None
    ) -> None:
        self._app, self._local, self._gate = app, local, gate
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        try:
            self._check(Request(scope))
        except AccessRefused as refused:
            await refused.response(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check(self, request: Request) -> None:
        host = name_in(request.headers.get("Host", ""))
        if not (host in self._names or may_be_ours(host, local=self._local)):
            reason = f"the dashboard is not called {host[:200]!r}; --ui-name adds a name"
            raise AccessRefused(400, reason, {})
        if self._gate is not None:
            self._gate.check(request)


def _shown(header: str) -> bytes | None:
    """The token in *header*; None if there is none."""
    kind, _, value = header.partition(" ")
    if kind.lower() == "bearer":
        return value.encode("latin-1")
    if kind.lower() == "basic":
        try:
            _, _, password = base64.b64decode(value, validate=True).partition(b":")
        except (binascii.Error, ValueError):
            return None
        return password
    return None
