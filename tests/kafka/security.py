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
