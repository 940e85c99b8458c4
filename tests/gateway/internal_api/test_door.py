"""What a caller without the token can cost the gateway, and that the engine's calls pass."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyarrow import flight
from structlog.testing import capture_logs

from tests.helpers import PATIENCE_S
from wallaroo.dataflow.records import Outputs, Tally
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.auth import Authenticator
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.door import CALL_BYTES, MOST_STRANGERS, STRANGER_BYTES, Door
from wallaroo.gateway.internal_api.leases import Leases
from wallaroo.gateway.internal_api.service import GREETING, Service
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.system.guesses import Guesses, Pace

TOKEN = "a token that is long enough"
LARGE = 8 * 1024**2


class Within:
    """A port within, before which there is a door."""

    def __init__(self, stranger_s: float = PATIENCE_S, **bounds: int) -> None:
        self._directory = tempfile.TemporaryDirectory()
        path = Path(self._directory.name, "flight")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(128)
        self._listener.settimeout(PATIENCE_S)
        self.door = Door("127.0.0.1", 0, path, stranger_s, None, **bounds)

    def __enter__(self) -> Within:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.door.close()
        self._listener.close()
        self._directory.cleanup()

    def call(self, address: str = "127.0.0.1") -> socket.socket:
        """A caller at *address*, connected."""
        return socket.create_connection(
            ("127.0.0.1", self.door.port), PATIENCE_S, source_address=(address, 0)
        )

    def accept(self) -> tuple[socket.socket, str]:
        """What has come through, and what Flight calls its peer."""
        inside, name = self._listener.accept()
        inside.settimeout(PATIENCE_S)
        return inside, f"unix:{name}"


def ports_that_listen() -> set[int]:
    """TCP ports at which this process listens, for this test and for others."""
    mine = psutil.Process().net_connections("tcp")
    return {one.laddr.port for one in mine if one.status == psutil.CONN_LISTEN}


@pytest.fixture
def ports_before() -> set[int]:
    return ports_that_listen()


@pytest.fixture
def clock() -> list[float]:
    """What the clock of wrong tokens shows."""
    return [100.0]


@pytest.fixture
def service(tmp_path: Path, clock: list[float]) -> Iterator[Service]:
    journal = Journal(tmp_path / "journal.db", JournalLimits())
    outbox = Outbox(tmp_path / "outbox.db", 1 << 30)
    guard = Authenticator(
        TOKEN, Leases(tmp_path / "claim.json"), Guesses(lambda: clock[0], lambda _peer: True)
    )
    service = Service("grpc://127.0.0.1:0", journal, outbox, {}, guard)
    yield service
    service.shutdown()
    journal.close()
    outbox.close()


def _read(connection: socket.socket, size: int) -> int:
    """Bytes that arrive, up to *size*."""
    read = 0
    while read < size and (piece := connection.recv(size - read)):
        read += len(piece)
    return read


def test_only_so_many_bytes_of_a_stranger_pass() -> None:
    with Within() as within, within.call() as caller:
        inside, peer = within.accept()
        with inside:
            caller.setblocking(False)
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while sent < LARGE:
                    sent += caller.send(bytes(LARGE - sent))
            assert sent > STRANGER_BYTES
            assert _read(inside, STRANGER_BYTES) == STRANGER_BYTES
            inside.sendall(b"answer")  # it can be refused
            caller.settimeout(PATIENCE_S)
            assert _read(caller, 6) == 6
            inside.setblocking(False)
            with pytest.raises(BlockingIOError):
                inside.recv(1)
            within.door.trust(peer)
            inside.settimeout(PATIENCE_S)
            assert _read(inside, sent - STRANGER_BYTES) == sent - STRANGER_BYTES


def test_a_stranger_has_little_time_and_a_known_caller_all_it_wants() -> None:
    with Within(stranger_s=3.0) as within, within.call() as known:
        inside, peer = within.accept()
        known.sendall(b"call")
        assert _read(inside, 4) == 4
        within.door.trust(peer)
        with inside, within.call() as stranger:
            assert _read(stranger, 1) == 0  # it is cut off
            known.sendall(b"more")
            assert _read(inside, 4) == 4


def test_a_flood_from_one_address_costs_no_other_its_connection() -> None:
    with Within() as within, contextlib.ExitStack() as stack:
        engine = stack.enter_context(within.call("127.0.0.2"))
        from_engine, _ = within.accept()
        stack.enter_context(from_engine)
        flood = [stack.enter_context(within.call()) for _ in range(MOST_STRANGERS + 20)]
        for connection in flood[:20]:
            with contextlib.suppress(ConnectionError):
                assert _read(connection, 1) == 0
        engine.sendall(b"hello")
        assert _read(from_engine, 5) == 5


def _ends(connection: socket.socket, inside: socket.socket, size: int) -> bool:
    """Whether the door ends a connection when *size* bytes come on it."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(bytes(size))
        _read(inside, size)
        connection.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            return connection.recv(1) == b""
        return False
    return True


def test_a_known_caller_is_cut_off_when_a_call_is_too_large() -> None:
    with Within(call_bytes=100_000) as within, within.call() as caller, capture_logs() as logs:
        inside, peer = within.accept()
        with inside:
            for _ in range(3):  # each of which is accepted
                caller.sendall(bytes(50_000))
                assert _read(inside, 50_000) == 50_000
                within.door.trust(peer)
            assert not _ends(caller, inside, 40_000)
            assert _ends(caller, inside, 70_000)
    assert [entry["event"] for entry in logs] == ["connection ended: its calls are too large"]


def test_all_known_callers_together_have_a_bound_and_the_largest_pays() -> None:
    with Within(sum_bytes=150_000) as within, within.call() as large, within.call() as small:
        (one, first), (other, second) = within.accept(), within.accept()
        with one, other:
            for caller, inside, peer in ((large, one, first), (small, other, second)):
                caller.sendall(b"call")
                assert _read(inside, 4) == 4
                within.door.trust(peer)
            large.sendall(bytes(120_000))
            assert _read(one, 120_000) == 120_000
            small.sendall(bytes(40_000))
            assert _read(other, 40_000) == 40_000
            with contextlib.suppress(ConnectionError):
                assert _read(large, 1) == 0
            small.sendall(b"more")
            assert _read(other, 4) == 4


def test_what_a_connection_has_sent_does_not_count_once_it_has_ended() -> None:
    with Within(sum_bytes=100_000) as within, capture_logs() as logs:
        for _ in range(3):
            with within.call() as caller:
                inside, peer = within.accept()
                with inside:
                    caller.sendall(b"call")
                    assert _read(inside, 4) == 4
                    within.door.trust(peer)
                    caller.sendall(bytes(60_000))
                    assert _read(inside, 60_000) == 60_000
                    caller.close()
                    assert _read(inside, 1) == 0  # the door has noticed
    assert not logs


def test_there_are_only_so_many_known_connections() -> None:
    with Within(most_known=1) as within, within.call() as first:
        inside, peer = within.accept()
        first.sendall(b"call")
        assert _read(inside, 4) == 4
        within.door.trust(peer)
        with inside, within.call() as second:
            another, peer = within.accept()
            with another:
                second.sendall(b"call")
                assert _read(another, 4) == 4
                within.door.trust(peer)
                with contextlib.suppress(ConnectionError):
                    assert _read(second, 1) == 0
                first.sendall(b"more")
                assert _read(inside, 4) == 4


def test_a_call_that_no_gateway_takes_is_not_sent(service: Service) -> None:
    client = GatewayClient(f"grpc://127.0.0.1:{service.port}", token=TOKEN, patience_s=0)
    with pytest.raises(RuntimeFailure, match=r"'stage' has .* bytes, and the gateway takes 268,"):
        client.stage("run", 1, "t", [Outputs(0, b"", bytes(CALL_BYTES))], Tally())
    client.close()


def test_nothing_else_listens_on_a_port(ports_before: set[int], service: Service) -> None:
    assert ports_that_listen() - ports_before == {service.port}


def test_a_large_call_of_the_engine_passes_on_a_new_connection(service: Service) -> None:
    client = GatewayClient(f"grpc://127.0.0.1:{service.port}", token=TOKEN, patience_s=0)
    outputs = [Outputs(0, b"\0\0\0\0", bytes(LARGE))]
    client.stage("run", 1, "task", outputs, Tally())
    client.close()


def test_a_door_can_be_opened_in_an_event_loop() -> None:
    async def open_and_close() -> None:
        with Within() as within, within.call() as caller:
            inside, _ = within.accept()
            with inside:
                caller.sendall(b"call")
                assert _read(inside, 4) == 4

    asyncio.run(open_and_close())


def test_a_large_call_without_the_token_is_cut_off(service: Service) -> None:
    client = flight.FlightClient(f"grpc://127.0.0.1:{service.port}")
    options = flight.FlightCallOptions(timeout=1)
    with pytest.raises((flight.FlightTimedOutError, flight.FlightUnavailableError)):
        list(client.do_action(flight.Action("stage", bytes(LARGE)), options))
    client.close()


def test_a_port_that_is_taken_is_named(service: Service, tmp_path: Path) -> None:
    guard = Authenticator(TOKEN, Leases(tmp_path / "claim.json"))
    where = f"127.0.0.1:{service.port}"
    none: Any = None  # nothing is served
    with pytest.raises(RuntimeFailure, match=f"cannot listen on {where}: Address already in use"):
        Service(f"grpc://{where}", none, none, {}, guard)


def _call(service: Service, token: str) -> None:
    """A call with *token*, repeated by nobody."""
    client = flight.FlightClient(f"grpc://127.0.0.1:{service.port}")
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
    try:
        list(client.do_action(flight.Action(GREETING, b""), options))
    finally:
        client.close()


def test_wrong_tokens_are_slowed_down_and_logged_at_a_limited_rate(
    service: Service, clock: list[float]
) -> None:
    with capture_logs() as logs:
        for _ in range(Pace.AT_ONCE):
            with pytest.raises(flight.FlightUnauthenticatedError, match="not this gateway's"):
                _call(service, "a guess")
        for token in ("a guess", TOKEN):  # which of them is right is not told
            with pytest.raises(
                flight.FlightUnavailableError,
                match=r"too many wrong tokens came from 127\.0\.0\.1: try again in 5 s",
            ):
                _call(service, token)
        clock[0] += Pace.EVERY_S
        with pytest.raises(flight.FlightUnauthenticatedError):
            _call(service, "a guess")
    told = [(one["event"], one["peer"], one["action"], one["refused"]) for one in logs]
    assert told == [
        ("call refused", "127.0.0.1", GREETING, 1),
        ("call refused", "127.0.0.1", GREETING, Pace.AT_ONCE),
    ]


def test_wrong_tokens_do_not_shut_out_who_knows_the_token(
    service: Service, clock: list[float]
) -> None:
    for _ in range(Pace.AT_ONCE):
        with pytest.raises(flight.FlightUnauthenticatedError):
            _call(service, "a guess")
    clock[0] += Pace.EVERY_S
    _call(service, TOKEN)
    for _ in range(3 * Pace.AT_ONCE):
        with pytest.raises(flight.FlightUnauthenticatedError):
            _call(service, "a guess")
    _call(service, TOKEN)


def test_who_shares_the_loopback_address_cannot_shut_out_the_driver(tmp_path: Path) -> None:
    none: Any = None  # nothing is served but greetings
    service = Service(
        "grpc://127.0.0.1:0", none, none, {}, Authenticator(TOKEN, Leases(tmp_path / "claim.json"))
    )
    for _ in range(3 * Pace.AT_ONCE):
        with pytest.raises(flight.FlightUnauthenticatedError):
            _call(service, "a guess")
    _call(service, TOKEN)
    service.shutdown()


def test_a_method_that_there_is_not_asks_for_the_token(service: Service) -> None:
    client = flight.FlightClient(f"grpc://127.0.0.1:{service.port}")
    with pytest.raises(flight.FlightUnauthenticatedError, match="no token was sent"):
        list(client.list_flights())
    with pytest.raises(flight.FlightUnauthenticatedError, match="no token was sent"):
        client.do_get(flight.Ticket(b'{"start": [0, 0], "end": 1}')).read_all()
    client.close()
