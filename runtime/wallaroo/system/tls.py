"""TLS for sources, sinks and the gateway's internal API: PEM files, TLS 1.2 and newer."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from wallaroo.errors import UsageError


@dataclass(frozen=True)
class TLSFiles:
    """PEM files that one side of a connection uses."""

    certificate: Path | None = None
    """What this side shows, with the certificates that lead to its authority."""
    key: Path | None = None
    """The private key of the certificate."""
    authorities: Path | None = None
    """Certificates of whom this side trusts to say who the other one is."""

    def serving(self) -> ssl.SSLContext | None:
        """The context of a side that is connected to; None where no certificate is given.

        Where there are authorities, whoever connects has to show a certificate of theirs.

        Raises:
            UsageError: The files cannot be used.
        """
        if self.certificate is None:
            if self.key is not None or self.authorities is not None:
                msg = "TLS on sources needs a certificate: give --in-tls-cert"
                raise UsageError(msg)
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._load(context)
        if self.authorities is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def connecting(self) -> ssl.SSLContext | None:
        """The context of a side that connects; None where no authorities are given.

        The other side has to show a certificate of theirs, for the name it was connected to by.

        Raises:
            UsageError: The files cannot be used.
        """
        if self.authorities is None:
            if self.certificate is not None or self.key is not None:
                msg = "TLS needs to know whom to trust: give the file of the authorities as well"
                raise UsageError(msg)
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody yet
        self._load(context)
        return context

    def at_door(self) -> tuple[bytes, bytes] | None:
        """Certificate and key that the gateway's internal API shows; None where there are none.

        Raises:
            UsageError: The files cannot be used.
        """
        if self.certificate is None and self.key is None:
            return None
        if self.certificate is None or self.key is None:
            msg = "TLS at the internal API needs a certificate and its key: give both"
            raise UsageError(msg)
        self._load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))  # finds what is wrong
        return self.certificate.read_bytes(), self.key.read_bytes()

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
    msg = "the key is encrypted; give one that is not, readable for its owner alone"
    raise ValueError(msg)
