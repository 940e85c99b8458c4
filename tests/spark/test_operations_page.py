"""The commands on the page of operations do what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import ROOT, free_address
from tests.spark.harness import PATIENCE_S, Receiver, send
from wallaroo.run.background_run import BackgroundRun

pytestmark = pytest.mark.spark

PAGE = (ROOT / "docs" / "operations.md").read_text()
COMMANDS = [
    str(line).strip().removeprefix("$ ")
    for block in re.findall(r"^ *```console\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if "s3a://" not in line  # tests/object_store/test_snapshots_of_runs.py
]
SHOP = """
import json
import wallaroo

class Total:
    def __init__(self):
        self.count = 0

@wallaroo.decoder(header_length=4, length_fmt=">I")
def order(payload):
    return json.loads(payload)

@wallaroo.key_extractor
def item(order):
    return order["item"]

@wallaroo.state_computation(name="add", state=Total)
def add(order, total):
    total.count += order["count"]
    return f"{order['item']}: {total.count}"

@wallaroo.encoder
def encode(text):
    return text + "\\n"

def application_setup(args):
    orders = wallaroo.source("orders", wallaroo.TCPSourceConfig("127.0.0.1", IN, order))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", OUT, encode)
    return wallaroo.build_application("Shop", orders.key_by(item).to(add).to_sink(sink))
"""


class Shop:
    """An operator who types commands of the page, with directories of the test in their place."""

    def __init__(self, home: Path, receiver: Receiver) -> None:
        self.home = home
        self.receiver = receiver
        self.typed: set[str] = set()
        code = SHOP.replace("IN", free_address().rpartition(":")[2])
        self.code = code.replace("OUT", receiver.address.rpartition(":")[2])
        (home / "shop.py").write_text(self.code)

    def command(self, beginning: str, ending: str = "") -> str:
        """The command of the page that begins and ends so."""
        found = {one for one in COMMANDS if one.startswith(beginning) and one.endswith(ending)}
        (command,) = found
        self.typed |= found
        return command.replace("/var/", f"{self.home}/var/")

    def run(self, beginning: str = "wallaroo run", ending: str = "/var/lib/shop") -> BackgroundRun:
        return BackgroundRun([*shlex.split(self.command(beginning, ending))[1:], "--no-ui"])

    def call(self, beginning: str, ending: str = "") -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            self.command(beginning, ending),
            shell=True,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def order(self, running: BackgroundRun, *counts: int) -> list[bytes]:
        """Send orders of nuts; returns what comes of them."""
        before = len(self.receiver.messages)
        payloads = [json.dumps({"item": "nut", "count": count}).encode() for count in counts]
        send(running.sources["orders"], payloads)
        received = self.receiver.wait_for(before + len(counts))
        return [output.removesuffix(b"\n") for output in received[before:]]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    for directory in ("var/lib", "var/backups", "new"):
        (tmp_path / directory).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with Receiver("lines") as receiver:
        yield Shop(tmp_path, receiver)


def test_the_commands_do_what_the_page_says(shop: Shop) -> None:
    # an edit while it runs
    with shop.run(ending="--reload") as running:
        assert shop.order(running, 2, 3) == [b"nut: 2", b"nut: 5"]
        running.wait_until_processed()
        assert "position 2," in shop.call("wallaroo snapshot")
        Path("shop.py").write_text(shop.code.replace("item']}:", "item']} is"))
        running.wait_for_event("reloaded", PATIENCE_S)
        assert shop.order(running, 10) == [b"nut is 15"]
        assert running.stop() == 0

    # new code
    Path("new/shop.py").write_text(shop.code.replace("item']}:", "item']} ="))
    assert "well formed" in shop.call("wallaroo check new/shop.py")
    shop.call("wallaroo state export")
    shop.call("wallaroo state import new/shop.py")
    imported = f"{shop.home}/var/lib/shop-2"
    with BackgroundRun(["run", "new/shop.py", "--state-dir", imported, "--no-ui"]) as running:
        assert shop.order(running, 1) == [b"nut = 16"]
        assert running.stop() == 0

    # a restored backup
    shop.call("mv")
    shop.call("cp -a /var/backups/shop")
    with shop.run() as running:
        assert shop.order(running, 1) == [b"nut is 6"]
        # and the new code again, while it runs
        assert "promoted: the run continues" in shop.call("wallaroo promote new/shop.py")
        assert shop.order(running, 1) == [b"nut = 7"]
        assert running.stop() == 0
    assert shop.typed == set(COMMANDS)
