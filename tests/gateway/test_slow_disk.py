"""A disk whose syncs take long: they are few, only what must waits for them, nothing is lost."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import opened, outputs
from tests.gateway.stand_in import StandIn
from tests.helpers import PATIENCE_S, WORD_COUNT, free_address, wait_until
from wallaroo.client import Sender
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.run.background_run import BackgroundRun

SOURCE = "Split and Count"


class SlowDisk:
    """Decides how long each sync of a process takes, and counts them."""

    def __init__(self, directory: Path) -> None:
        self._time, self._count = directory / "milliseconds", directory / "count"
        self._count.touch()
        self.takes(0)
        library = directory / "slow_disk.so"
        source = Path(__file__).with_name("slow_disk.c")
        command = ["gcc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        self.environment = {
            "LD_PRELOAD": str(library),
            "SLOW_SYNC": str(self._time),
            "SLOW_SYNC_COUNT": str(self._count),
        }

    def takes(self, milliseconds: int) -> None:
        """Let each sync that begins from now on take this long."""
        fresh = self._time.with_name("fresh")
        fresh.write_text(str(milliseconds))
        fresh.replace(self._time)

    @property
    def syncs(self) -> int:
        """How many have begun."""
        return self._count.stat().st_size


@pytest.fixture
def disk(tmp_path: Path) -> SlowDisk:
    if not sys.platform.startswith("linux") or shutil.which("gcc") is None:
        pytest.skip("slowing syncs down requires Linux and gcc")
    return SlowDisk(tmp_path)


@pytest.fixture
def health() -> str:
    """Address of the gateway's probes."""
    return free_address()


@pytest.fixture
def gateway(
    disk: SlowDisk, tmp_path: Path, health: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BackgroundRun]:
    location = f"unix:{tmp_path}/gateway.sock"
    command = ["gateway", str(WORD_COUNT), "--in", "127.0.0.1:0", "--out", "127.0.0.1:9"]
    command += ["--listen", location, "--state-dir", str(tmp_path / "state")]
    command += ["--health", health]
    with monkeypatch.context() as patch:
        for name, value in disk.environment.items():
            patch.setenv(name, value)
        running = BackgroundRun(command)
    running.wait_for_event("ready", PATIENCE_S)
    yield running
    running.__exit__()


def test_messages_share_syncs_and_the_gateway_answers_during_one(
    disk: SlowDisk, gateway: BackgroundRun, health: str, tmp_path: Path
) -> None:
    (address,) = gateway.wait_for_event("ready", 0.0)["sources"].values()
    client = GatewayClient(f"unix:{tmp_path}/gateway.sock")
    sent = [b"message %d" % number for number in range(2_000)]

    def accepted() -> int:
        (source,) = client.status().sources
        return source.accepted

    with Sender(address, "stream") as sender:
        disk.takes(50)
        for message in sent[:-2]:
            sender.send(message)
        sender.flush()
        assert accepted() == sender.acknowledged == len(sent) - 2
        assert disk.syncs < len(sent) / 20

        disk.takes(2_000)
        before = disk.syncs
        sender.send(sent[-2])
        wait_until(lambda: disk.syncs > before, "a sync")
        assert accepted() == sender.acknowledged == len(sent) - 2  # the sync has not ended
        sender.send(sent[-1])
        sender.flush()
        assert disk.syncs - before <= 6

    made = [outputs(b"out %d\n" % number, to=0) for number in range(500)]
    engine = StandIn(f"unix:{tmp_path}/gateway.sock", ticks=False)
    before = disk.syncs
    publishing = threading.Thread(target=engine.publish, args=made)
    publishing.start()
    wait_until(lambda: disk.syncs > before, "a sync")
    with urllib.request.urlopen(f"http://{health}/healthz", timeout=PATIENCE_S) as answer:
        assert answer.status == 200
    assert publishing.is_alive()
    disk.takes(500)
    publishing.join()
    engine.close()
    assert disk.syncs - before <= 10
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.wait(PATIENCE_S) == 0
    assert not [event for event in gateway.events if event.get("level") == "error"]
    with opened(tmp_path / "state", sinks=("Split and Count",)) as store:
        found = b"".join(block.data for block in store.journal.read(0, len(sent)))
        assert store.journal.end == len(sent)
    assert found == b"".join(len(one).to_bytes(4, "big") + one for one in sent)
