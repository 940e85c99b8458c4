"""A client that reads the state of a running application."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

from wallaroo.errors import RuntimeFailure, UsageError, reason_of
from wallaroo.system.http_connection import connection_to

_PAGE = 1_000
_UNCERTAIN = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INTERNAL_SERVER_ERROR)


class Entity(NamedTuple):
    """An entity of a running application."""

    key: Any
    """The key as plain JSON values: text and numbers as they are, `{"$tuple": […]}` and others."""
    value: Any
    """The entity likewise, as `wallaroo state export` writes it; an object is a dictionary of its
    attributes, with its class as `$class`."""
    position: int
    """The offset as of which it is: it has seen all messages before, and none after."""
    error: str | None = None
    """Why it has no value: it cannot be loaded, is too large, or cannot be shown as JSON."""


class State:
    """Reads one state of a running application, at its dashboard's address; a context manager.

    What is read is published: no failure undoes it. The methods are thread-safe; threads share one
    connection.

    Args:
        url: URL of the dashboard, such as `http://127.0.0.1:7990/`.
        name: Name of the state.
        token: The token of the dashboard, which it requires unless it is at a loopback address.
        timeout_s: Seconds for each answer.
        tls: TLS context for a URL that begins with `https`; None to trust the system's authorities.

    Raises:
        UsageError: *url* is not a URL, or *token* has characters that a header cannot have.

    Example:
        with State("http://127.0.0.1:7990/", "word totals") as totals:
            entity = totals.get("zebra")
            if entity is not None:
                print(entity.value["count"], "as of offset", entity.position)
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        token: str | None = None,
        timeout_s: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            msg = f"{url!r} is not a URL: {error}"
            raise UsageError(msg) from error
        if parts.scheme not in {"http", "https"} or not host:
            msg = f"{url!r} is not the URL of a dashboard, such as http://127.0.0.1:7990/"
            raise UsageError(msg)
        if token is not None and not (token.isascii() and token.isprintable()):
            msg = "the token has characters that a header of HTTP cannot have"
            raise UsageError(msg)
        self._url = url
        self._path = f"{parts.path.rstrip('/')}/state/{_quoted(name)}"
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._lock = threading.Lock()
        self._connection = connection_to(parts, timeout_s, tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def get(self, key: Any) -> Entity | None:
        """The entity of *key*; None if there is none.

        Args:
            key: The key, of the class that the key extractor returns.

        Raises:
            UsageError: The application has no state of this name, or the token is wrong.
            RuntimeFailure: The application cannot answer now, or the entity cannot be shown.
        """
        found = self._ask(f"/{_quoted(repr(key))}?literal=true")
        return None if found is None else _entity(found)

    def entities(self, prefix: str = "") -> Iterator[Entity]:
        """All entities whose keys, as text, begin with *prefix*, in the order of their keys.

        They are read page by page, so their positions differ.

        Raises:
            UsageError: The application has no state of this name, or the token is wrong.
            RuntimeFailure: The application cannot answer now.
        """
        asked = {"prefix": prefix, "limit": str(_PAGE)}
        while True:
            page = self._ask(f"?{urlencode(asked, errors='surrogatepass')}")
            assert page is not None
            yield from map(_entity, page["entities"])
            if page["next"] is None:
                return
            asked["after"] = page["next"]

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        with self._lock:
            self._connection.close()

    def _ask(self, path: str) -> dict[str, Any] | None:
        """What is at *path* below that of the state; None if there is nothing."""
        with self._lock:
            try:
                status, missing, content = self._answer(path)
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                reason = reason_of(error) if isinstance(error, OSError) else repr(error)
                msg = f"the dashboard at {self._url} does not answer: {reason}"
                raise RuntimeFailure(msg) from error
        if status == HTTPStatus.OK:
            found: dict[str, Any] = json.loads(content)
            return found
        if missing:
            return None
        msg = f"{self._url}: {content.decode(errors='replace')[:1_000]}"
        raise (RuntimeFailure if status in _UNCERTAIN else UsageError)(msg)

    def _answer(self, path: str) -> tuple[int, bool, bytes]:
        """The status of an answer, whether the key has no entity, and the content."""
        if self._connection.sock is not None:
            with contextlib.suppress(ConnectionError):
                return self._answer_once(path)
            self._connection.close()  # it had been idle for too long, and was closed
        return self._answer_once(path)

    def _answer_once(self, path: str) -> tuple[int, bool, bytes]:
        self._connection.request("GET", self._path + path, headers=self._headers)
        response = self._connection.getresponse()
        missing = response.headers.get("Wallaroo-Position") is not None
        return response.status, missing, response.read()


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def _entity(found: dict[str, Any]) -> Entity:
    return Entity(found["key"], found.get("entity"), found["position"], found.get("error"))
