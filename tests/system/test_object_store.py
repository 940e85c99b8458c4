"""An object store: the server that the environment names, and one that does not answer."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.helpers import wait_until
from wallaroo.errors import UsageError
from wallaroo.system import object_store
from wallaroo.system.object_store import ObjectPath, endpoint


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


def test_a_call_that_waits_for_the_store_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    with capture_logs() as logs:

        class Silent:
            """A store that answers once somebody has been told that it has not yet."""

            def open_input_stream(self, _key: str) -> None:
                wait_until(lambda: bool(logs))
                raise FileNotFoundError

        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:9000")
        monkeypatch.setattr(object_store, "filesystem", Silent)
        monkeypatch.setattr(object_store, "_TELL_S", 0.001)
        with pytest.raises(FileNotFoundError):
            ObjectPath.at("s3a://bucket/votes").read_bytes()
    (told,) = logs
    assert told == {
        "event": "waiting for the object store",
        "path": "s3a://bucket/votes",
        "store": "http://store:9000",
        "so_far_s": 0.001,
        "log_level": "warning",
    }
