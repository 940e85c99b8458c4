"""TLS at the gateway's internal API, beside the token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import Authority
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.connector import Connector
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.internal_api.service import Service
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.system.credentials import AUTHORITIES_VARIABLE, TOKEN_VARIABLE
from wallaroo.system.tls import TLSFiles

TOKEN = "a token that is long enough"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
def location(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A door that speaks TLS, for processes that know its token and its authority."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(authority.file))
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    outbox = Outbox(tmp_path / "outbox.db", 1 << 20)
    service = Service(
        "grpc+tls://127.0.0.1:0",
        journal,
        outbox,
        {"hot_keys": lambda _: [["state", "key", 1.0, 0.5]]},
        Authenticator(TOKEN, Leases(tmp_path / "claim.json")),
        certificate=authority.files().for_internal_api(),
    )
    yield f"grpc+tls://127.0.0.1:{service.port}"
    service.shutdown()
    journal.close()
    outbox.close()


def told(client: GatewayClient) -> object:
    try:
        return client.hot_keys()
    finally:
        client.close()


def test_driver_and_workers_speak_tls(location: str) -> None:
    client = Connector(location)()
    assert isinstance(client, GatewayClient)
    assert told(client) == [("state", "key", 1.0, 0.5)]


def test_a_gateway_of_another_authority_is_told_nothing(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other")
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(other.file))
    with pytest.raises(RuntimeFailure, match="gateway call 'hot_keys' failed"):
        told(GatewayClient(location, patience_s=0.2))


def test_who_speaks_no_tls_is_not_heard(location: str) -> None:
    with pytest.raises(RuntimeFailure, match="gateway call 'hot_keys' failed"):
        told(GatewayClient(location.replace("+tls", ""), patience_s=0.2))


def test_tls_without_authorities_is_refused(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"the authorities of the gateway in .*nowhere"):
        GatewayClient(location)
    monkeypatch.delenv(AUTHORITIES_VARIABLE)
    with pytest.raises(UsageError, match=f"speaks TLS: {AUTHORITIES_VARIABLE} is to name a file"):
        GatewayClient(location)


def test_commands_on_the_gateways_machine_need_the_token_alone(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(AUTHORITIES_VARIABLE)
    assert told(GatewayClient(location, token=TOKEN, verify=False)) == [("state", "key", 1.0, 0.5)]


def test_a_certificate_without_its_key_is_refused(authority: Authority) -> None:
    with pytest.raises(UsageError, match="a certificate and its key; specify both"):
        TLSFiles(authority.files().certificate).for_internal_api()
