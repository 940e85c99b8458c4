"""The messages of a request to an HTTP source, or the reason for which it has none."""

from __future__ import annotations

import hashlib

from starlette.types import Scope

from wallaroo.gateway.http.origins import Origins

NDJSON = "application/x-ndjson"
"""Content type of bodies with a message on each line."""
MOST_LINES = 100_000
"""Lines of a body at most, empty ones included: a line takes ten times as much memory as two
letters do in the body."""
_LONGEST_KEY = 255


class Unacceptable(Exception):
    """A request that gets no further.

    Args:
        status: Status of the answer.
        reason: Text of the answer.
        headers: Further headers of the answer.
    """

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers or {}


def header(scope: Scope, name: bytes) -> str | None:
    """The header *name*, which is in lower case, of a request; None if it has none.

    Example:
        >>> header({"headers": [(b"content-type", b"text/csv")]}, b"content-type")
        'text/csv'
    """
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None


def check_origin(scope: Scope, origins: Origins) -> None:
    """Look at the page that sends a request, if it says that it is one, as browsers do.

    Raises:
        Unacceptable: It is a page of another site, and not among *origins*.
    """
    origin = header(scope, b"origin")
    if origin is None or origins.allow(origin):
        return
    if not origins.are_own(origin, header(scope, b"host") or ""):
        page = origin[:200] or "an empty origin"
        reason = f"Pages of {page} may not send messages; origins= of the source adds one."
        raise Unacceptable(403, reason)


def check_head(scope: Scope, path: str, most: int) -> None:
    """Look at everything else that comes before the body.

    Args:
        scope: The request, as ASGI describes it.
        path: The only path that there is.
        most: Largest body, in bytes.

    Raises:
        Unacceptable: It is not a POST to *path*, or its body can only be refused.
    """
    if scope["path"] != path:
        raise Unacceptable(404, f"There is nothing at this path; send messages to {path}.")
    if scope["method"] != "POST":
        raise Unacceptable(405, "Send messages by POST.", {"Allow": "POST"})
    if (header(scope, b"content-encoding") or "identity").lower() != "identity":
        raise Unacceptable(415, "Send bodies without a Content-Encoding.")
    length = header(scope, b"content-length") or ""
    if length.isdecimal() and int(length) > most:
        raise Unacceptable(413, f"The body has {length} bytes; the limit is {most}.")


def key_of(scope: Scope) -> bytes | None:
    """Digest of the request's `Idempotency-Key`; None if it has none.

    Raises:
        Unacceptable: It is empty, or too long to be one.
    """
    key = header(scope, b"idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= _LONGEST_KEY:
        raise Unacceptable(400, f"An Idempotency-Key has 1 to {_LONGEST_KEY} characters.")
    return digest(key.encode("latin-1"))


def digest(data: bytes) -> bytes:
    """What is remembered of *data*: 16 bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


def messages_of(scope: Scope, body: bytes) -> list[bytes]:
    """The messages of *body*.

    Raises:
        Unacceptable: There are none, or too many.
    """
    kind = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if kind != NDJSON:
        if not body:
            raise Unacceptable(400, "The body is empty; it must be a message.")
        return [body]
    if (count := body.count(b"\n") + (body[-1:] != b"\n")) > MOST_LINES:
        reason = f"The body has {count} lines; the limit is {MOST_LINES}: send several requests."
        raise Unacceptable(413, reason)
    lines = body.split(b"\n")
    if b"\r" in body:
        lines = [line.removesuffix(b"\r") for line in lines]
    if messages := [line for line in lines if line]:
        return messages
    raise Unacceptable(400, "The body has no lines; each must be a message.")
