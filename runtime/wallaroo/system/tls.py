"""TLS for sources, sinks and the gateway's internal API: PEM files, TLS 1.2 and newer."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

    def serving(self) -> ssl.SSLContext | None:
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
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._load(context)
        if self.authorities is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def connecting(self) -> ssl.SSLContext | None:
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
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no authority yet
        self._load(context)
        return context

    def for_internal_api(self) -> ssl.SSLContext | None:
        """Create the context of the gateway's internal API; None without a certificate.

        Raises:
            UsageError: The files are invalid.
        """
        if (self.certificate is None) != (self.key is None):
            msg = "TLS on the internal API requires a certificate and its key; specify both"
            raise UsageError(msg)
        return self.serving()

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
