"""Certificates that are renewed while they are in use."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from tests.gateway.harness import Authority
from wallaroo.errors import UsageError
from wallaroo.system.tls import RenewedContext, TLSFiles


def authority(directory: Path, name: str) -> Authority:
    directory.mkdir(exist_ok=True)
    return Authority(directory, name)


def shaken(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """Both ends of a connection after the handshake."""
    ours, theirs = socket.socketpair()
    served: list[ssl.SSLSocket] = []

    def serve() -> None:
        try:
            served.append(server.wrap_socket(ours, server_side=True))
        except OSError:
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        connected = client.wrap_socket(theirs, server_hostname="127.0.0.1")
    except OSError:
        theirs.close()
        raise
    finally:
        thread.join()
    return served[0], connected


def trusting(one: Authority) -> RenewedContext:
    context = TLSFiles(authorities=one.file).connecting()
    assert context is not None
    return context


def talk(pair: tuple[ssl.SSLSocket, ssl.SSLSocket]) -> None:
    """What one end sends comes out at the other."""
    ours, theirs = pair
    theirs.sendall(b"hello")
    assert ours.recv(5) == b"hello"


def close(*pairs: tuple[ssl.SSLSocket, ssl.SSLSocket]) -> None:
    for one in (one for pair in pairs for one in pair):
        one.close()


def test_new_connections_have_the_renewed_certificate_and_open_ones_keep_theirs(
    tmp_path: Path,
) -> None:
    first, second = authority(tmp_path, "first"), authority(tmp_path, "second")
    serving = first.files().serving()
    assert serving is not None
    assert not serving.renew(), "nothing was replaced"
    old = shaken(serving, trusting(first))
    second.files()  # in the same files
    assert serving.renew()
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(serving, trusting(first))
    new = shaken(serving, trusting(second))
    talk(old)
    talk(new)
    close(old, new)


def test_a_client_trusts_the_renewed_authority(tmp_path: Path) -> None:
    first, second = authority(tmp_path, "first"), authority(tmp_path, "second")
    client = trusting(first)
    first.file.write_bytes(second.file.read_bytes())
    assert client.renew()
    serving = second.files().serving()
    assert serving is not None
    pair = shaken(serving, client)
    talk(pair)
    close(pair)


def test_files_that_are_no_certificates_change_nothing(tmp_path: Path) -> None:
    one = authority(tmp_path, "one")
    files = one.files()
    serving = files.serving()
    assert serving is not None
    assert files.certificate is not None
    files.certificate.write_text("not a certificate")
    with pytest.raises(UsageError, match="cannot be used for TLS"):
        serving.renew()
    assert not serving.renew(), "it is reported once"
    pair = shaken(serving, trusting(one))
    close(pair)
    files.certificate.unlink()
    with pytest.raises(UsageError, match="cannot be used for TLS"):
        serving.renew()
    one.files()
    assert serving.renew()
