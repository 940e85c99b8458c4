"""TLS for sources, sinks and the gateway's internal API: PEM files, TLS 1.2 and newer.

Files may be renewed while they are in use: see `RenewedContext`.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from wallaroo.errors import UsageError


@dataclass(frozen=True)
class TLSFiles:
    """PEM files for one side of a connection."""

    certificate: Path | None = None
    """Certificate of this side, with its chain."""
    key: Path | None = None
    """Private key of the certificate."""
    authorities: Path | None = None
    """Certificates of the authorities that this side trusts."""

    def serving(self) -> RenewedContext | None:
        """Create the context of a server; None without a certificate.

        With authorities, clients must present a certificate issued by one of them.

        Raises:
            UsageError: The files are invalid.
        """
        if self.certificate is None:
            if self.key is not None or self.authorities is not None:
                msg = "TLS on sources requires a certificate; add --in-tls-cert"
                raise UsageError(msg)
            return None
        return RenewedContext(self, self._serving)

    def connecting(self) -> RenewedContext | None:
        """Create the context of a client; None without authorities.

        The server must present a certificate issued by one of them, for the name of its address.

        Raises:
            UsageError: The files are invalid.
        """
        if self.authorities is None:
            if self.certificate is not None or self.key is not None:
                msg = "TLS requires trusted authorities; specify their file as well"
                raise UsageError(msg)
            return None
        return RenewedContext(self, self._connecting)

    def for_internal_api(self) -> RenewedContext | None:
        """Create the context of the gateway's internal API; None without a certificate.

        Raises:
            UsageError: The files are invalid.
        """
        if (self.certificate is None) != (self.key is None):
            msg = "TLS on the internal API requires a certificate and its key; specify both"
            raise UsageError(msg)
        return self.serving()

    def versions(self) -> list[tuple[int, int, int]]:
        """What changes when one of the files is replaced; a file that is away has no part in it."""
        found = []
        for file in filter(None, (self.certificate, self.key, self.authorities)):
            with contextlib.suppress(OSError):
                stat = file.stat()
                found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
        return found

    def _serving(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._load(context)
        if self.authorities is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _connecting(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no authority yet
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        file: Path | None = None
        try:
            if (file := self.certificate) is not None:
                context.load_cert_chain(file, self.key, password=_no_password)
            if (file := self.authorities) is not None:
                context.load_verify_locations(file)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            also = f" with the key {self.key}" if self.key and file == self.certificate else ""
            msg = f"{file}{also} cannot be used for TLS: {reason}"
            raise UsageError(msg) from error


class RenewedContext(ssl.SSLContext):
    """A context whose connections have the certificates and authorities that its files had last.

    Those that are open keep what they have. The context itself is never changed, as OpenSSL does
    not allow that beside handshakes of other threads: another one takes its place.

    Args:
        files: The files.
        create: Creates a context from them.

    Raises:
        UsageError: The files are invalid.
    """

    def __new__(cls, *_: object) -> Self:
        """Be a context for those who ask; its own settings are not used."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, files: TLSFiles, create: Callable[[], ssl.SSLContext]) -> None:
        self.files = files
        self._create = create
        self._versions = files.versions()
        self._current = create()

    def renew(self) -> bool:
        """Read the files again if one was replaced; returns whether it was.

        Raises:
            UsageError: They are invalid, and connections go on having what they had.
        """
        versions = self.files.versions()
        if versions == self._versions:
            return False
        self._versions = versions  # what is invalid is reported once
        self._current = self._create()
        return True

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """See `ssl.SSLContext.wrap_socket`."""
        return self._current.wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """See `ssl.SSLContext.wrap_bio`."""
        return self._current.wrap_bio(*args, **options)


def _no_password() -> str:
    msg = "the key is encrypted; use an unencrypted key that only its owner can read"
    raise ValueError(msg)


def subject_of(certificate: Mapping[str, Any] | None) -> str | None:
    """Whom *certificate*, as `ssl.SSLSocket.getpeercert` returns it, is of; None without one.

    A certificate without a subject is of its alternative names.

    Example:
        >>> subject_of({"subject": ((("organizationName", "Us"),), (("commonName", "orders"),))})
        'organizationName=Us, commonName=orders'
        >>> subject_of({"subject": (), "subjectAltName": (("URI", "spiffe://us/orders"),)})
        'URI=spiffe://us/orders'
    """
    if not certificate:
        return None
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    pairs = subject or certificate.get("subjectAltName", ())
    escaped = (f"{name}={value}".replace("\\", r"\\").replace(",", r"\,") for name, value in pairs)
    return ", ".join(escaped) or None
