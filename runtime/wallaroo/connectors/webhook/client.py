"""Posts to one URL over a connection that stays open."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from wallaroo.connectors.webhook.headers import Prepared
from wallaroo.connectors.webhook.resolve import WebhookSink
from wallaroo.system.http_connection import connection_to

_ANSWER_BYTES = 64 * 1024
"""Bytes of an answer that are read; after a longer one the connection is closed."""
_SHOWN = 200
"""Letters of an answer that are shown."""
_LONGEST_PAUSE_S = 300.0
"""Most seconds that a receiver can ask to wait."""


class Answer(NamedTuple):
    """What a receiver says."""

    status: int
    text: str
    """Start of its body, printable."""
    retry_after_s: float | None = None
    """Seconds that it asks to wait."""

    @property
    def is_success(self) -> bool:
        """Whether it has what was posted."""
        return 200 <= self.status < 300  # noqa: PLR2004

    def __str__(self) -> str:
        """As a reason, without secrets."""
        reason = http.client.responses.get(self.status, "")
        said = f": {self.text}" if self.text else ""
        return f"the receiver answered {self.status} {reason}".rstrip() + said


class WebhookClient:
    """Posts requests one after the other; for one thread, except `cut`.

    Args:
        sink: Where to post to.
        common: What all requests have in common.
        tls: Verifies receivers; None for the authorities that the system trusts.
    """

    def __init__(self, sink: WebhookSink, common: Prepared, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(sink.url)
        self._common = common
        self._is_cut = False
        self._connection = connection_to(parts, sink.timeout_s, tls)

    def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post *body*, over a new connection if the receiver has closed the last one.

        Raises:
            OSError: The receiver does not answer.
            HTTPException: Its answer is not HTTP.
        """
        reused = self._connection.sock is not None
        try:
            return self._post(body, headers)
        except (ConnectionError, http.client.RemoteDisconnected):
            self._connection.close()
            if self._is_cut or not reused:
                raise
        return self._post(body, headers)

    def cut(self) -> None:
        """Let a `post` that waits fail; for any thread."""
        self._is_cut = True
        if (sock := self._connection.sock) is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        whole = {"User-Agent": "wallaroo", **self._common.headers, **headers}
        try:
            self._connection.request("POST", self._common.target, body, whole)
            response = self._connection.getresponse()
            text = response.read(_ANSWER_BYTES)
            if not response.isclosed():
                self._connection.close()
        except BaseException:
            self._connection.close()
            raise
        said = text[: 4 * _SHOWN].decode("utf-8", "replace")
        shown = " ".join(self._common.redacted(said).split())
        shown = "".join(c if c.isprintable() else "…" for c in shown[:_SHOWN])
        return Answer(response.status, shown, _seconds(response.headers.get("Retry-After")))


def _seconds(retry_after: str | None) -> float | None:
    """Seconds that a header asks to wait, at most `_LONGEST_PAUSE_S`; None if it does not.

    Example:
        >>> _seconds("7"), _seconds("soon"), _seconds("Thu, 01 Jan 1970 00:00:00 GMT")
        (7.0, None, 0.0)
        >>> _seconds("1000000")
        300.0
    """
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_PAUSE_S)
    try:
        wait_s = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return min(max(wait_s, 0.0), _LONGEST_PAUSE_S)
