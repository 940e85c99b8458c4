"""What takes hostile input, each with what has to hold whatever comes."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Mapping

from tests.apps.test_market_spread import order, quote
from tests.dataflow.harness import Driven, chunks
from tests.helpers import MARKET_SPREAD, WORD_COUNT
from wallaroo.api.addresses import Address, tcp_parse_input_addrs, tcp_parse_output_addrs
from wallaroo.errors import FrameError, UsageError
from wallaroo.testing import load, simulate
from wallaroo.wire.acknowledged import Frame, FrameCutter, Messages
from wallaroo.wire.framing import Framing

_FRAMINGS = (
    *(Framing(4, ">I", max_frame=100), Framing(2, "<H", max_frame=100), Framing(1, "b")),
    Framing(4, ">i", max_frame=100),
    Framing(3, lambda header: int(header) - 3, max_frame=100),
)
_MAX_BODY = 150
_CLOCK_BYTES = 8
"""At the end of each rejection: the time at which it was made."""


def frames(data: bytes) -> None:
    """A stream is cut alike however it comes in, up to the same error, and nothing over is held."""
    for framing in _FRAMINGS:
        scan, error = framing.scan_until_error(data)
        payloads = framing.split(data[: scan.end])
        assert len(payloads) == scan.frames
        assert all(len(payload) <= framing.max_frame for payload in payloads)
        rest, found, found_error = b"", list[bytes](), None
        for place in range(len(data)):
            rest += data[place : place + 1]
            step, found_error = framing.scan_until_error(rest)
            found += framing.split(rest[: step.end])
            rest = rest[step.end :]
            if found_error is not None:
                break
            assert len(rest) < framing.header_length + framing.max_frame
        assert (found, found_error) == (payloads, error)


def acked(data: bytes) -> None:
    """Frames are read alike however they come in, or are a `FrameError`; none is over the limit."""
    at_once = _frames_of([data])
    one_by_one = _frames_of([data[place : place + 1] for place in range(len(data))])
    assert at_once == one_by_one


def _frames_of(pieces: list[bytes]) -> list[Frame] | None:
    cutter, found = FrameCutter(_MAX_BODY), list[Frame]()
    for piece in pieces:
        try:
            found += cutter.feed(piece)
        except FrameError:
            return None
        assert cutter.held < 4 + _MAX_BODY
    assert all(len(frame.data) < _MAX_BODY for frame in found if isinstance(frame, Messages))
    return found


def decoders(data: bytes) -> None:
    """A payload is a message or is set aside, and its neighbours are processed as without it."""
    quoted, ordered = quote(5.0, 5.5), order()
    words = ("Split and Count", b"to be or not to be")
    for app, source, neighbours in (
        (MARKET_SPREAD, "Orders", [quoted, ordered]),
        (MARKET_SPREAD, "Market Data", [quoted, ordered]),
        (WORD_COUNT, "Split and Count", [words]),
    ):
        application = load(app)
        sent = [*neighbours, (source, data), *neighbours]
        due = simulate(application, sent)
        driven = Driven(application)
        for batch in chunks(application, sent, [0] * len(sent)):
            driven.batch(batch)
        assert driven.tally.set_aside == len(due.set_aside)
        assert len(driven.tally.letters) == len(due.set_aside) + len(due.unknown_keys)
        end = -_CLOCK_BYTES if app == MARKET_SPREAD else None
        for sink, outputs in due.by_sink.items():
            made = Counter(output[:end] for output in driven.outputs[sink])
            assert made == Counter(output[:end] for output in outputs)


def addresses(data: bytes) -> None:
    """A text is addresses that can be bound, or a usage error that begins with its option."""
    text = data.decode("utf-8", "replace")
    parsers: Mapping[str, Callable[[list[str]], list[Address]]] = {
        "--in": tcp_parse_input_addrs,
        "--out": tcp_parse_output_addrs,
    }
    for option, parse in parsers.items():
        try:
            found = parse([option, text])
        except UsageError as error:
            assert str(error).startswith(f"{option}: ")  # noqa: PT017  (the other way is as good)
            continue
        assert found
        for host, port in found:
            assert host
            assert 0 <= int(port) <= 65_535
            with contextlib.suppress(OSError):  # what sockets raise for a host that is not there
                socket.getaddrinfo(host, int(port), flags=socket.AI_NUMERICHOST)


TAKERS: Mapping[str, Callable[[bytes], None]] = {
    "frames": frames,
    "acked": acked,
    "decoders": decoders,
    "addresses": addresses,
}
