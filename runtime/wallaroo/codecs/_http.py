"""One request to a schema registry, with limits for time and size.

Confluent's own client has neither limit, and `confluent-kafka[schemaregistry]` would add ten
packages to every image, cryptography among them, and 18 MiB to each worker that uses a registry.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

_TYPE = "application/vnd.schemaregistry.v1+json"
_LARGEST = 8 * 1024 * 1024
"""Bytes of the largest answer that is read; schemas have kilobytes."""
_PIECE = 64 * 1024
_MISSING = {40401, 40402, 40403}
"""Confluent's codes for a subject, version or schema that does not exist."""
_NOT_FOUND, _CONFLICT, _UNPROCESSABLE = 404, 409, 422


class Unanswered(Exception):
    """The registry has not answered the question, which may be asked again."""


class NotThere(Exception):
    """The registry does not have what it was asked for."""


class RegistryRefusal(Exception):
    """The registry does not accept a schema, or has one that cannot be used."""


@dataclass(frozen=True)
class ClientSettings:
    """Settings of a client."""

    authorization: str | None = field(repr=False)
    """The header of that name."""
    context: ssl.SSLContext
    files: tuple[str, ...]
    """Where the settings came from."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because credentials would be sent along."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def ask(
    url: str, body: dict[str, Any] | None, settings: ClientSettings, limit_s: float
) -> dict[str, Any]:
    """Return what the registry answers at *url*; POST *body* if there is one.

    Raises:
        NotThere: It does not have what was asked for.
        Refused: It does not accept the body.
        Unanswered: Anything else; the message says what, and no secret.
    """
    headers = {"Accept": f"{_TYPE}, application/json"}
    if body is not None:
        headers["Content-Type"] = _TYPE
    if settings.authorization is not None:
        headers["Authorization"] = settings.authorization
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    opener = urllib.request.build_opener(
        _NoRedirects, urllib.request.HTTPSHandler(context=settings.context)
    )
    deadline = time.monotonic() + limit_s
    try:
        with opener.open(request, timeout=limit_s) as answer:
            return _parsed(_read(answer, deadline))
    except urllib.error.HTTPError as error:
        with error:
            _failed(error, deadline, settings)
    except urllib.error.URLError as error:
        raise Unanswered(_in_words(error.reason)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unanswered(_in_words(error)) from None
    raise AssertionError


def _read(answer: Any, deadline: float) -> bytes:
    """Read all of *answer*, which may come slowly, but not for ever."""
    pieces, size = [], 0
    while piece := answer.read1(_PIECE):
        size += len(piece)
        if size > _LARGEST:
            msg = f"the answer has more than {_LARGEST} bytes"
            raise Unanswered(msg)
        if time.monotonic() > deadline:
            msg = "the answer was not complete in time"
            raise Unanswered(msg)
        pieces.append(piece)
    return b"".join(pieces)


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        msg = f"the answer is not that of a schema registry: {data[:60]!r}"
        raise Unanswered(msg)
    return answer


def _failed(error: urllib.error.HTTPError, deadline: float, settings: ClientSettings) -> None:
    """Raise what the answer *error* means."""
    code, message = None, ""
    try:
        answer = _parsed(_read(error, deadline))
        code, message = answer.get("error_code"), f": {str(answer.get('message'))[:500]}"
    except (OSError, http.client.HTTPException, Unanswered):
        pass  # the status alone says enough
    reason = f"{error.code} {error.reason}{message}"
    if error.code == _NOT_FOUND and code in _MISSING:
        raise NotThere(reason) from None
    if error.code in {_CONFLICT, _UNPROCESSABLE}:
        raise RegistryRefusal(reason) from None
    if error.code in {401, 403}:
        files = " and ".join(settings.files)
        reason += f"; credentials come from {files}" if files else "; there are no credentials"
    if (location := error.headers.get("Location")) is not None:
        reason += f"; redirects are not followed: write the URL {location!r}"
    raise Unanswered(reason) from None


def _in_words(error: Any) -> str:
    return str(error) or type(error).__name__
