"""Whatever comes in from outside, nobody else's data is lost, and there are clear errors at most.

`make fuzz EXAMPLES=100000` tries more.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.tcp.speaker import Speaker
from tests.fuzz.corpus import kept, like
from tests.fuzz.takers import TAKERS
from tests.gateway.harness import RunningListener, source
from tests.helpers import PATIENCE_S
from wallaroo.wire.acknowledged import PREAMBLE, Hello, Welcome, encode

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "200"))
KEPT = [(taker, name) for taker in TAKERS for name in kept(taker)]
BEGINNINGS = [b"", PREAMBLE, PREAMBLE + encode(Hello(1, "fuzz"))]


@pytest.mark.parametrize(("taker", "name"), KEPT)
def test_what_is_kept_is_taken(taker: str, name: str) -> None:
    TAKERS[taker](kept(taker)[name])


@pytest.mark.parametrize("taker", TAKERS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_what_is_like_it_is_taken(taker: str, data: st.DataObject) -> None:
    TAKERS[taker](data.draw(like(taker)))


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningListener]:
    with RunningListener(tmp_path_factory.mktemp("listener"), [source()]) as running:
        yield running


@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(st.sampled_from(BEGINNINGS), like("acked") | like("frames"))
def test_a_hostile_connection_harms_no_other(
    listener: RunningListener, begin: bytes, data: bytes
) -> None:
    with Speaker(listener.addresses[0], "witness") as witness:
        welcome = witness.hear()
        assert isinstance(welcome, Welcome)
        with socket.create_connection(listener.addresses[0], PATIENCE_S) as connection:
            connection.sendall(begin + data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        witness.send(welcome.last + 1, b"still here")
        witness.acknowledged(welcome.last + 1)
