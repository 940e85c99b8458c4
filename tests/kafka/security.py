"""Certificates and credentials of brokers."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from wallaroo.connectors.kafka.settings import VARIABLE

USER, PASSWORD = "shop", "open sesame 27"


class Authority:
    """An authority that nobody knows, and certificates that it has signed.

    Args:
        directory: Where its own certificate is written.
    """

    def __init__(self, directory: Path) -> None:
        self._authority = trustme.CA()
        self.file = directory / "ca.pem"
        """Its certificate."""
        self._authority.cert_pem.write_to_path(str(self.file))

    def issue(self, file: Path) -> None:
        """Write a key and a certificate for this machine to *file*, as Java reads them."""
        issued = self._authority.issue_cert("localhost", "127.0.0.1")
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        packed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(packed + b"".join(blob.bytes() for blob in issued.cert_chain_pems))


def settings(authority: Authority, file: Path, **changed: str) -> dict[str, str]:
    """The environment with *file*, which has what brokers ask for, some settings *changed*."""
    chosen = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": USER,
        "sasl_password": PASSWORD,
        "ssl_ca_location": str(authority.file),
        **changed,
    }
    lines = [f"{name.replace('_', '.')}={value}\n" for name, value in chosen.items()]
    file.write_text("".join(lines))
    return {VARIABLE: str(file)}
