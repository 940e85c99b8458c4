"""An object store: the server that the environment names, and one that does not answer."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.helpers import WORD_COUNT, wait_until
from wallaroo.errors import UsageError
from wallaroo.system import object_store
from wallaroo.system.object_store import ObjectPath, endpoint

_ATTEMPTS_S = 120.0
"""Less than what all attempts of a request to a silent store take."""


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

            def open_input_stream(self, _key: str, **_more: object) -> None:
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


def test_ctrl_c_does_not_wait_for_the_store(tmp_path: Path) -> None:
    # a process that was started in the background ignores SIGINT, and its children do, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(_ATTEMPTS_S)
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        command = [sys.executable, "-m", "wallaroo", "state", "show", str(WORD_COUNT), "a"]
        command += ["--state-dir", "s3a://bucket/votes"]
        with subprocess.Popen(
            command,
            env=environment,
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        ) as reading:
            connection, _ = silent.accept()
            with connection:
                reading.send_signal(signal.SIGINT)
                _, told = reading.communicate(timeout=_ATTEMPTS_S)
    assert (reading.returncode, told.splitlines()[-1]) == (128 + signal.SIGINT, "interrupted")
