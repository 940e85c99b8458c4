"""Lines of standard input become messages of a source, each accepted once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.gateway.harness import source
from tests.gateway.stand_in import journal_of
from tests.gateway.test_server import RunningGateway
from tests.helpers import wait_until
from wallaroo.connectors.tcp.resolve import TCPSource
from wallaroo.run.standard_input import StandardInput
from wallaroo.wire.framing import Framing

SHORT = source("short", Framing(4, ">I", 20))
SMALL = source("small", Framing(1, "B", 1000))


@pytest.fixture
def gateway() -> Iterator[RunningGateway]:
    with (
        tempfile.TemporaryDirectory() as directory,  # short, as the name of a Unix socket must be
        closing(RunningGateway(Path(directory), [SHORT, SMALL])) as running,
    ):
        yield running


@contextmanager
def reading(gateway: RunningGateway, source: TCPSource) -> Iterator[tuple[StandardInput, int]]:
    """What reads a pipe for *source*, and where to write."""
    status = {one.name: one for one in gateway.gateway_client.status().sources}
    read, write = os.pipe()
    made = StandardInput(source, status[source.name].where, read)
    os.close(read)
    try:
        yield made, write
    finally:
        made.stop()


def accepted(gateway: RunningGateway, name: str) -> int:
    return next(s.accepted for s in gateway.gateway_client.status().sources if s.name == name)


def payloads(gateway: RunningGateway, of: TCPSource) -> list[bytes]:
    """What the journal has of the source."""
    names = [one.name for one in gateway.gateway_client.status().sources]
    blocks = journal_of(gateway.directory)
    mine = [block for block in blocks if block.source == names.index(of.name)]
    return [payload for block in mine for payload in of.framing.split(block.data)]


def test_each_line_is_a_message_also_the_last_one_without_an_end(gateway: RunningGateway) -> None:
    with reading(gateway, SHORT) as (read, write):
        os.write(write, b"ada\n\nwith a return\r\n")
        wait_until(lambda: accepted(gateway, "short") == 3)  # before the end
        assert not read.ended
        os.write(write, b"no end")
        os.close(write)
        wait_until(lambda: read.ended)
    assert payloads(gateway, SHORT) == [b"ada", b"", b"with a return", b"no end"]


def test_the_next_run_goes_on_where_the_last_one_ended(gateway: RunningGateway) -> None:
    for line in (b"one\n", b"one\n"):
        with reading(gateway, SHORT) as (read, write):
            os.write(write, line)
            os.close(write)
            wait_until(lambda: read.ended)
    assert payloads(gateway, SHORT) == [b"one", b"one"]


@pytest.mark.parametrize(
    ("of", "size", "reason"),
    [
        (SHORT, 21, "it has more than 20 bytes: raise --max-frame"),
        (SHORT, 23, "it has more than 20 bytes: raise --max-frame"),
        (SHORT, 90_000, "it has more than 20 bytes: raise --max-frame"),
        (SMALL, 256, "the header of the source's messages cannot hold its length: "),
    ],
)
def test_a_line_that_is_too_long_is_reported_and_left_out(
    gateway: RunningGateway, of: TCPSource, size: int, reason: str
) -> None:
    with reading(gateway, of) as (read, write), capture_logs() as told:
        os.write(write, b"first\n")
        with os.fdopen(os.dup(write), "wb") as pipe:
            pipe.write(size * b"x" + b"\r\nlast\n")
        os.close(write)
        wait_until(lambda: read.ended)
    assert payloads(gateway, of) == [b"first", b"last"]
    (event,) = told
    assert (event["event"], event["line"], event["log_level"]) == ("line not sent", 2, "error")
    assert str(event["reason"]).startswith(reason)


def test_the_longest_line_is_taken(gateway: RunningGateway) -> None:
    with reading(gateway, SHORT) as (read, write):
        os.write(write, 20 * b"x" + b"\r\n" + 20 * b"y" + b"\n" + 20 * b"z")
        os.close(write)
        wait_until(lambda: read.ended)
    assert payloads(gateway, SHORT) == [20 * b"x", 20 * b"y", 20 * b"z"]


def test_what_cannot_be_read_is_a_failure(gateway: RunningGateway) -> None:
    address = gateway.gateway_client.status().sources[2].where
    read = StandardInput(SHORT, address, os.open("/proc/self/mem", os.O_RDONLY))
    wait_until(lambda: read.failure)
    assert read.failure == "standard input cannot be read: [Errno 5] Input/output error"
    read.stop()


def test_a_stop_is_no_failure(gateway: RunningGateway) -> None:
    with reading(gateway, SHORT) as (read, write):
        os.write(write, b"a\n")
        wait_until(lambda: accepted(gateway, "short"))
        read.stop()
        os.write(write, b"b\n")
        os.close(write)
    assert (read.failure, read.ended, payloads(gateway, SHORT)) == (None, False, [b"a"])
