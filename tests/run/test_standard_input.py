"""Lines of standard input become messages of a source, each accepted once."""

from __future__ import annotations

import os
import pty
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.gateway.harness import NOWHERE
from tests.gateway.stand_in import journal_of
from tests.gateway.test_server import RunningGateway
from tests.helpers import wait_until
from wallaroo.connectors.tcp.resolve import StandardInputSource
from wallaroo.run.standard_input import StandardInput
from wallaroo.wire.framing import Framing
from wallaroo.wire.refusals import refusal, refusal_reason, unguarded


def source(name: str, framing: Framing) -> StandardInputSource:
    return StandardInputSource(name, framing, bytes, NOWHERE, "127.0.0.1", 0)


SHORT = source("short", Framing(4, ">I", 150))
SMALL = source("small", Framing(1, "B", 1000))


@pytest.fixture
def gateway() -> Iterator[RunningGateway]:
    with (
        tempfile.TemporaryDirectory() as directory,  # short, as the name of a Unix socket must be
        closing(RunningGateway(Path(directory), [SHORT, SMALL])) as running,
    ):
        yield running


@contextmanager
def reading(
    gateway: RunningGateway, source: StandardInputSource
) -> Iterator[tuple[StandardInput, int]]:
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


def payloads(gateway: RunningGateway, of: StandardInputSource) -> list[bytes]:
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
        (SHORT, 151, "has more than 150 bytes: raise --max-frame"),
        (SHORT, 153, "has more than 150 bytes: raise --max-frame"),
        (SHORT, 90_000, "has more than 150 bytes: raise --max-frame"),
        (SMALL, 256, "has 256 bytes, which the header of the messages cannot hold"),
        (SMALL, 90_000, "has more than 1,000 bytes: raise --max-frame"),
    ],
)
@pytest.mark.parametrize("filling", [b"x", b"\xff"])
def test_a_line_that_is_too_long_becomes_a_dead_letter(
    gateway: RunningGateway, of: StandardInputSource, size: int, reason: str, filling: bytes
) -> None:
    with reading(gateway, of) as (read, write):
        with os.fdopen(os.dup(write), "wb") as pipe:
            pipe.write(b"first\n" + size * filling + b"\r\nlast\n")
        os.close(write)
        wait_until(lambda: read.ended)
    first, refused, last = payloads(gateway, of)
    assert (first, last) == (b"first", b"last")
    told = f"line 2 of standard input {reason}; it begins with {20 * filling!r}"
    due = told[: of.framing.max_frame - len(refusal(""))]
    assert refusal_reason(refused) == due


def test_a_line_like_a_refusal_is_a_message(gateway: RunningGateway) -> None:
    like = bytes(refusal("nothing"))
    with reading(gateway, SHORT) as (read, write):
        os.write(write, like)
        os.close(write)
        wait_until(lambda: read.ended)
    assert [unguarded(payload) for payload in payloads(gateway, SHORT)] == [like]


def test_a_line_may_come_in_pieces_and_the_end_of_a_terminal_is_the_end(
    gateway: RunningGateway,
) -> None:
    address = gateway.gateway_client.status().sources[2].where
    terminal, its_end = pty.openpty()
    read = StandardInput(SHORT, address, its_end)
    for typed in (b"a", b"da\npa", b"\x04", b"rt\x04\x04"):
        os.write(terminal, typed)
    wait_until(lambda: read.ended)
    assert payloads(gateway, SHORT) == [b"ada", b"part"]
    read.stop()
    os.close(its_end)
    os.close(terminal)


def test_the_longest_line_is_taken(gateway: RunningGateway) -> None:
    with reading(gateway, SHORT) as (read, write):
        os.write(write, 150 * b"x" + b"\r\n" + 150 * b"y" + b"\n" + 150 * b"z")
        os.close(write)
        wait_until(lambda: read.ended)
    assert payloads(gateway, SHORT) == [150 * b"x", 150 * b"y", 150 * b"z"]


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
