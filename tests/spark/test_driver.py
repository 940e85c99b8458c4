"""Gateway and driver as processes of their own, as on a cluster."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.harness import Authority
from tests.helpers import free_address, wait_until
from tests.spark.harness import APPS, PATIENCE_S, Receiver, run, send
from wallaroo.run.background_run import BackgroundRun
from wallaroo.system.credentials import AUTHORITIES_VARIABLE

pytestmark = pytest.mark.spark

SOURCE = "Split and Count"


@contextlib.contextmanager
def process(command: str, *arguments: str) -> Iterator[dict[str, Any]]:
    """A command that says when it is ready; yields what it says, and stops it in the end."""
    background = BackgroundRun([command, str(APPS / "word_count"), *arguments])
    try:
        yield background.wait_for_event("ready", PATIENCE_S)
        assert background.stop() == 0
    finally:
        background.__exit__()


def test_the_drivers_dashboard_shows_gateway_and_engine_behind_tls(
    tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    token.write_text("a token that is long enough")
    door = free_address()
    authority = Authority(tmp_path, "authority")
    files = authority.files()
    shared = ("--in", "127.0.0.1:0", "--token-file", str(token))
    with (
        Receiver("lines") as receiver,
        process(
            *("gateway", *shared, "--out", receiver.address),
            *("--listen", door, "--chunks-port", "0", "--state-dir", str(tmp_path / "edge")),
            *("--listen-tls-cert", str(files.certificate), "--listen-tls-key", str(files.key)),
        ) as gateway,
        process(
            *("driver", *shared, "--out", receiver.address),
            *("--gateway", door, "--state-dir", str(tmp_path / "state")),
            *("--gateway-ca", str(authority.file)),
            *("--master", "local[1]", "--partitions", "2", "--ui", "127.0.0.1:0"),
        ) as driver,
    ):
        send(gateway["sources"][SOURCE], [b"one two"] * 50)
        receiver.wait_for(100)

        def snapshot() -> Any:
            with urllib.request.urlopen(driver["dashboard"] + "snapshot") as answer:
                return json.load(answer)

        wait_until(
            lambda: snapshot()["sinks"][0]["delivered"] == 100 and snapshot()["publications"],
            "the gateway's and the engine's figures",
        )
        seen = snapshot()
        assert seen["sources"][0]["accepted"] == 50
        assert sum(one["messages"] for one in seen["publications"]) == 50
        assert seen["workers"] == {"wanted": 2, "alive": 2}  # a process for each partition
        replay = urllib.request.Request(driver["dashboard"] + "dead-letters/replay", b"[1]")
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(replay)
        with refused.value as answer:
            assert answer.read() == b"the dashboard is read-only: it was started without a token"


def test_a_run_whose_workers_may_be_elsewhere_has_its_door_behind_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = free_address()
    authority = Authority(tmp_path, "authority")
    files = authority.files()
    tls = ("--gateway-tls", str(files.certificate), str(files.key), str(authority.file))
    options = ("--gateway", door, *tls)
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(authority.file))  # for the test's own client
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, tmp_path / "state", options=options) as running,
    ):
        host, port = door.split(":")
        trusting = ssl.create_default_context(cafile=authority.file)
        with (
            socket.create_connection((host, int(port)), PATIENCE_S) as plain,
            trusting.wrap_socket(plain, server_hostname=host) as door_behind_tls,
        ):
            assert door_behind_tls.version() == "TLSv1.3"
        send(running.sources[SOURCE], [b"one two"] * 50)
        assert len(receiver.wait_for(100)) == 100
        assert running.stop() == 0
