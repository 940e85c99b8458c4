"""Access control for the viewers of a sink."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.requests import Request

from wallaroo.connectors.http.requests import Unacceptable


class Access:
    """Decides on requests by path, method, origin and token.

    Args:
        path: The only path that there is.
        origins: Origins of pages that may read, besides the sink's own; `*` for all.
        token: What viewers must send; None for nothing.
    """

    def __init__(self, path: str, origins: Collection[str], token: str | None) -> None:
        self._path = path
        self._origins = frozenset(origins)
        self._token = None if token is None else token.encode()

    def headers(self, request: Request) -> dict[str, str]:
        """Headers by which a browser lets the page that asks read the answer."""
        origin = request.headers.get("origin")
        if origin is None or not self._is_allowed(origin):
            return {"Vary": "Origin"}
        return {"Vary": "Origin", "Access-Control-Allow-Origin": origin}

    def check(self, request: Request) -> None:
        """Let *request* pass.

        Raises:
            Unacceptable: It may not read the events.
        """
        if request.url.path != self._path:
            raise Unacceptable(
                404, f"There is nothing at this path; the events are at {self._path}."
            )
        if request.method not in {"GET", "OPTIONS"}:
            raise Unacceptable(405, "Read the events by GET.", {"Allow": "GET, OPTIONS"})
        origin = request.headers.get("origin")
        own = urlsplit(origin).netloc == request.headers.get("host") if origin else True
        if origin is not None and not own and not self._is_allowed(origin):
            raise Unacceptable(403, f"Pages of {origin[:200]} may not read these events.")
        if request.method == "GET" and self._token is not None:
            given = request.query_params.get("token", "")
            scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() == "bearer":
                given = credentials.strip()
            if not secrets.compare_digest(given.encode(), self._token):
                raise Unacceptable(
                    401,
                    "A token is required: as Authorization: Bearer TOKEN, or as ?token=TOKEN.",
                    {"WWW-Authenticate": "Bearer"},
                )

    def _is_allowed(self, origin: str) -> bool:
        return "*" in self._origins or origin in self._origins
