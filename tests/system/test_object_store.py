"""The server of an object store that the environment names."""

from __future__ import annotations

import pytest

from wallaroo.errors import UsageError
from wallaroo.system.object_store import endpoint


def test_a_port_that_no_server_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:65535/")
    assert endpoint() == "http://store:65535"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://secret@store:65536")
    with pytest.raises(UsageError, match="AWS_ENDPOINT_URL_S3 is not http://HOST:PORT"):
        endpoint()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://store:65536")
    with pytest.raises(
        UsageError, match="AWS_ENDPOINT_URL_S3 has an invalid port; the maximum is 65535"
    ):
        endpoint()
