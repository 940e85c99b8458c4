"""A driver that waits for its lease, and one that has no use in waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.internal_api.test_service import Served
from tests.helpers import PATIENCE_S
from wallaroo.gateway.internal_api.connection import TokenRefused
from wallaroo.run import lease_renewal
from wallaroo.system.credentials import TOKEN_VARIABLE


def test_a_wrong_token_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "a token of another gateway")
    monkeypatch.setattr(lease_renewal, "_RETRY_S", 3600.0)
    with Served(tmp_path) as served:
        renewal = lease_renewal.LeaseRenewal(f"http://127.0.0.1:{served.port}", "driver")
        with pytest.raises(TokenRefused, match="the token is not this gateway's"):
            renewal.acquire(PATIENCE_S)
