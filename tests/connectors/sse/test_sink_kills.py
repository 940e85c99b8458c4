"""A viewer that comes back after each kill of the gateway has every output once."""

from __future__ import annotations

import contextlib
import http.client
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.connectors.child_gateway import child_gateway
from tests.gateway.harness import outputs
from tests.gateway.stand_in import StandIn
from tests.helpers import PATIENCE_S, free_address, wait_until
from wallaroo.gateway.internal_api.client import GatewayClient

APP = """
import wallaroo

def application_setup(args):
    source = wallaroo.source("In", wallaroo.HTTPSourceConfig("127.0.0.1", 0, bytes.decode))
    sink = wallaroo.SSESinkConfig("127.0.0.1", args[0], wallaroo.encoder(str))
    return wallaroo.build_application("kills", source.to_sink(sink))
"""
WAITS = [True, False] * 2
"""Before each kill, whether the viewer is there; else the gateway is killed while it delivers."""
EPOCHS = 25
"""Epochs before each kill."""


@contextlib.contextmanager
def gateway(directory: Path, port: str) -> Iterator[GatewayClient]:
    with child_gateway(directory, port) as (client, _):
        assert client.status().sinks[0].where == f"127.0.0.1:{port}"
        yield client


class Viewer:
    """Reads events, and connects again with the last identifier, until it is told to end."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ending = threading.Event()
        self.connections = 0
        self.texts: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def has_connected(self, times: int) -> bool:
        return self.connections >= times

    def end(self) -> None:
        self._ending.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        last = "0-0"  # before all: what there is, with a word on what is not
        while not self._ending.wait(0.01):
            with (
                contextlib.closing(http.client.HTTPConnection(self._address, timeout=1)) as client,
                contextlib.suppress(OSError, http.client.HTTPException),
            ):
                client.request("GET", "/", headers={"Last-Event-ID": last})
                answer = client.getresponse()
                self.connections += 1
                fields: dict[str, str] = {}
                while not self._ending.is_set() and (line := answer.readline()):
                    if line != b"\n":
                        name, _, value = line.decode().rstrip("\n").partition(": ")
                        fields[name] = value
                        continue
                    last = fields.get("id", last)  # only now: an event that was cut off comes again
                    if not fields.get("data", "{").startswith("{"):  # not of what was missed
                        self.texts.append(fields["data"])
                    fields = {}


def publish(engine: StandIn, epoch: int) -> None:
    made = outputs(*[b"%d" % number for number in range(3 * epoch, 3 * epoch + 3)])
    engine.publish(made)


def test_a_viewer_that_comes_back_has_every_output_once() -> None:
    address = free_address()
    port = address.rpartition(":")[2]
    with tempfile.TemporaryDirectory() as name, StandIn.at(name) as engine:
        directory, epoch = Path(name), 0  # short, as the name of a Unix socket must be
        (directory / "app.py").write_text(APP)
        with gateway(directory, port):
            viewer = Viewer(address)
            wait_until(lambda: viewer.connections, "the viewer")
        for wait in WAITS:
            seen = viewer.connections
            with gateway(directory, port):
                for _ in range(EPOCHS):
                    publish(engine, epoch)
                    epoch += 1
                if wait:
                    wait_until(partial(viewer.has_connected, seen + 1), "the viewer")
        with gateway(directory, port) as client:
            wait_until(lambda: len(viewer.texts) >= 3 * epoch, "all outputs")
            wait_until(lambda: not client.status().undelivered, "the delivery of everything")
            assert client.status().delivered == 3 * epoch
        viewer.end()
    assert viewer.texts == [str(number) for number in range(3 * epoch)]
