"""Sources wait for the tables of their joins, however these are read."""

from __future__ import annotations

import contextlib
import http.client
import socket
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import Popen

import pytest

from tests.connectors.child_gateway import child_gateway
from tests.gateway.stand_in import journal_of
from tests.helpers import PATIENCE_S, free_address, wait_until
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.status import GatewayStatus
from wallaroo.gateway.tables import Tables
from wallaroo.model.application import Application
from wallaroo.model.order import BEGINNING
from wallaroo.testing import load
from wallaroo.wire.framing import Framing

APP = '''
import time
from pathlib import Path
import wallaroo

HERE = Path(__file__).parent

class Customers(wallaroo.MessageSource):
    """The lines of a file; until a file `all` is there, it has more. `broken` is what it raises."""

    def read(self, position):
        position, followed = position or 0, (HERE / "followed").exists()
        while True:
            if (HERE / "broken").exists():
                raise OSError("the disk is away")
            had_all = (HERE / "all").exists()
            lines = (HERE / "customers").read_bytes().splitlines()
            for number, line in enumerate(lines[position:], position + 1):
                yield line, number
            position = len(lines)
            if had_all and not followed:
                return
            if had_all:
                yield None
            time.sleep(0.01)

@wallaroo.table_join(name="name", table_first=True)
def name(order, customer):
    return order + customer

class Count(wallaroo.Aggregation):
    def initial_accumulator(self):
        return [0]

    def update(self, line, accumulator):
        accumulator[0] += 1

    def combine(self, one, other):
        return [one[0] + other[0]]

    def output(self, key, accumulator):
        return b"%d" % accumulator[0]

def in_order(of):
    """Orders and clicks are read in the order of time, which is in the last digit."""
    time_of = lambda line: int(line[-1:])
    def timed(name):
        config = wallaroo.FileSourceConfig(
            HERE / name, bytes, "lines", time=time_of, idle=wallaroo.seconds(2)
        )
        return of(name, config)
    windows = wallaroo.range_windows(wallaroo.seconds(1)).with_event_time(time_of).over(Count)
    orders = timed("orders")
    return orders, orders.merge(timed("clicks")).to(windows)

def application_setup(args):
    lines = wallaroo.FileSourceConfig(HERE / "orders", bytes, "lines")
    frames = wallaroo.TCPSourceConfig("127.0.0.1", 0, wallaroo.decoder(4, ">I")(bytes))
    posted = wallaroo.HTTPSourceConfig("127.0.0.1", 0, bytes)
    customers = wallaroo.SourceConfig(Customers(), bytes)
    of = lambda name, config: wallaroo.source(name, config).key_by(lambda line: line[:1])
    orders = of("file", lines).merge(of("tcp", frames)).merge(of("http", posted))
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(bytes))
    if (HERE / "clicks").exists():
        orders, counts = in_order(of)
        named = orders.join(of("customers", customers), name).to_sink(sink)
        return wallaroo.build_application("tables", named, counts.to_sink(sink))
    named = orders.join(of("customers", customers), name).to_sink(sink)
    return wallaroo.build_application("tables", named, of("other", frames).to_sink(sink))
'''
FRAME = Framing(4, ">I").frame


class Running:
    """The gateway of the application above, in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "app.py").write_text(APP)
        self.add("customers", "a1")
        self.add("orders", "a2")
        self.health = free_address()

    def add(self, file: str, *lines: str) -> None:
        with (self.directory / file).open("a") as opened:
            opened.writelines(f"{line}\n" for line in lines)

    def started(self) -> AbstractContextManager[tuple[GatewayClient, Popen[bytes]]]:
        return child_gateway(self.directory, options=("--health", self.health))

    def probe(self) -> str:
        """What the probe for readiness tells, which is good."""
        with urllib.request.urlopen(f"http://{self.health}/readyz", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode().strip())

    def accepted(self) -> list[bytes]:
        chunks = journal_of(self.directory / "state")
        return [one for chunk in chunks for one in Framing(4, ">I").split(chunk.data)]

    def logged(self, event: str) -> bool:
        return event in (self.directory / "log").read_text()


@pytest.fixture
def running() -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as directory:  # its path is short
        yield Running(Path(directory))


def waiting(status: GatewayStatus) -> dict[str, str]:
    return {one.name: one.waits for one in status.sources if one.waits is not None}


def address(client: GatewayClient, source: str) -> tuple[str, int]:
    (where,) = [one.where for one in client.status().sources if one.name == source]
    host, _, port = where.rpartition(":")
    return host, int(port)


def application(directory: Path) -> Application:
    return load(str(directory / "app.py"))


def post(client: GatewayClient, line: bytes) -> int:
    connection = http.client.HTTPConnection(*address(client, "http"), timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("POST", "/", line)
        return connection.getresponse().status


def send(client: GatewayClient, source: str, line: bytes) -> None:
    with socket.create_connection(address(client, source), PATIENCE_S) as sender:
        sender.sendall(FRAME(line))


def test_sources_of_every_kind_wait_until_the_table_is_read(running: Running) -> None:
    with running.started() as (client, _):
        assert client.wait_until_accepted("customers", 1, PATIENCE_S)
        held = "waits for table 'customers'"
        assert waiting(client.status()) == dict.fromkeys(["file", "tcp", "http"], held)
        with pytest.raises(ConnectionRefusedError):
            send(client, "tcp", b"a3")
        assert post(client, b"a4") == http.client.SERVICE_UNAVAILABLE
        send(client, "other", b"x5")  # its messages meet no table
        assert client.wait_until_accepted("other", 1, PATIENCE_S)
        wait_until(lambda: running.logged("waiting for the table"), "the line of the log")
        assert not client.status().sources[0].accepted
        running.add("customers", "b6")
        (running.directory / "all").touch()
        wait_until(lambda: not waiting(client.status()), "the end of the table")
        assert post(client, b"a7") == http.client.ACCEPTED
        send(client, "tcp", b"a8")
        assert client.wait_until_accepted("tcp", 1, PATIENCE_S)
        assert client.wait_until_accepted("file", 1, PATIENCE_S)
    assert running.logged("table read")
    assert running.accepted()[:3] == [b"a1", b"x5", b"b6"]
    assert {*running.accepted()[3:]} == {b"a2", b"a7", b"a8"}


def test_what_came_while_the_gateway_was_stopped_is_read_first(running: Running) -> None:
    (running.directory / "all").touch()
    (running.directory / "followed").touch()
    with running.started() as (client, _):
        assert client.wait_until_accepted("file", 1, PATIENCE_S)
        running.add("customers", "b3")  # it is followed
        assert client.wait_until_accepted("customers", 2, PATIENCE_S)
    running.add("customers", "c4", "d5")
    (running.directory / "all").unlink()
    with running.started() as (client, _):
        assert client.wait_until_accepted("customers", 4, PATIENCE_S)
        assert "tcp" in waiting(client.status())
        (running.directory / "all").touch()
        wait_until(lambda: not waiting(client.status()), "the end of the table")
        send(client, "tcp", b"d6")
        assert client.wait_until_accepted("tcp", 1, PATIENCE_S)
    assert running.accepted() == [b"a1", b"a2", b"b3", b"c4", b"d5", b"d6"]


def test_a_table_that_cannot_be_read_is_waited_for_and_the_reason_told(running: Running) -> None:
    (running.directory / "all").touch()
    (running.directory / "broken").touch()
    with running.started() as (client, process):
        due = "which cannot be read: OSError: the disk is away"
        wait_until(lambda: due in waiting(client.status())["tcp"], "the reason")
        assert [one.problem for one in client.status().sources if one.name == "tcp"] == [None]
        (running.directory / "broken").unlink()
        assert client.wait_until_accepted("file", 1, PATIENCE_S)
        process.terminate()
        process.wait(PATIENCE_S)
    assert running.accepted() == [b"a1", b"a2"]


def test_what_is_read_in_the_order_of_time_with_orders_waits_for_the_table_too(
    running: Running,
) -> None:
    running.add("orders", "a4", "a6")
    running.add("clicks", "a1", "a3", "a5")
    with running.started() as (client, _):
        began = time.monotonic()
        wait_until(lambda: time.monotonic() > began + 3.0, "more time than idle= gives")
        (running.directory / "all").touch()
        assert client.wait_until_accepted("clicks", 3, PATIENCE_S)
        assert client.wait_until_accepted("orders", 3, PATIENCE_S)
    assert not running.logged("left out")
    assert running.accepted() == [b"a1", *(b"a%d" % number for number in range(1, 7))]


def test_a_gateway_is_ready_and_stops_while_sources_wait(running: Running) -> None:
    with running.started() as (client, process):
        assert client.wait_until_accepted("customers", 1, PATIENCE_S)
        assert running.probe().startswith("source 'file' waits for table 'customers'; source 'tcp'")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert running.accepted() == [b"a1"]


def test_calls_wait_for_all_tables_of_a_source_and_time_stands_still(running: Running) -> None:
    tables = Tables(application(running.directory))
    file, tcp, http_, customers, other = range(5)
    held = tables.holds([tcp, other])
    assert held is not None
    assert tables.holds([customers, other]) is None
    called: list[int] = []
    tables.call_when_read(tcp, lambda: called.append(tcp))
    tables.call_when_read(other, lambda: called.append(other))
    assert (called, held(), tables.wait(http_, 0.0)) == ([other], BEGINNING, False)
    tables.note_left(customers, 1234)
    assert tables.reason(file, lambda _: None) == "waits for table 'customers' (1,234 records left)"
    tables.note_read(other)  # which is no table
    tables.note_left(customers, 0)
    assert (called, held(), tables.wait(http_, 0.0)) == ([other, tcp], None, True)
    assert tables.reason(file, lambda _: None) is None
