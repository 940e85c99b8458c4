"""TLS at the gateway's internal API, beside the token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import Authority
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.internal_api.service import Service
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
    """A service that speaks TLS, for processes that know its token and its authority."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(authority.file))
    service = Service(
        "https://127.0.0.1:0",
        {"hot_keys": lambda _: [["state", "key", 1.0, 0.5]]},
        Authenticator(TOKEN, Leases(tmp_path / "claim.json")),
        authority.files().for_internal_api(),
    )
    yield f"https://127.0.0.1:{service.port}"
    service.shutdown()


def test_driver_and_workers_speak_tls(location: str) -> None:
    assert GatewayClient(location).hot_keys() == [("state", "key", 1.0, 0.5)]


def test_a_gateway_of_another_authority_is_told_nothing(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other")
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(other.file))
    with pytest.raises(RuntimeFailure, match="gateway call 'hot_keys' failed"):
        GatewayClient(location, patience_s=0.2).hot_keys()


def test_who_speaks_no_tls_is_not_heard(location: str) -> None:
    with pytest.raises(RuntimeFailure, match="gateway call 'hot_keys' failed"):
        GatewayClient(location.replace("https", "http"), patience_s=0.2).hot_keys()


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
    client = GatewayClient(location, token=TOKEN, verify=False)
    assert client.hot_keys() == [("state", "key", 1.0, 0.5)]


def test_a_certificate_without_its_key_is_refused(authority: Authority) -> None:
    with pytest.raises(UsageError, match="a certificate and its key; specify both"):
        TLSFiles(authority.files().certificate).for_internal_api()
