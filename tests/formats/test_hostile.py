"""Hostile bytes cost bounded time and memory, and end as an exception or a message."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.formats.kinds import (
    EVERYTHING,
    ORDER_PROTO,
    TRADE,
    Everything,
    Line,
    Order,
    Trade,
    TradeRow,
)
from tests.formats.registry import Registry
from wallaroo.codecs import (
    SchemaRegistry,
    avro_decoder,
    avro_encoder,
    csv_decoder,
    json_decoder,
    msgpack_decoder,
    protobuf_decoder,
    protobuf_encoder,
)

NODE = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
NOTHING = {"type": "record", "name": "Nothing", "fields": [{"name": "n", "type": "null"}]}
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
LISTS = {"type": "array", "items": {"type": "array", "items": "int"}}
LONGEST = (2**63 - 1).to_bytes(9, "little")
DECODERS: dict[str, Any] = {
    "json": json_decoder(),
    "json of a type": json_decoder(Trade),
    "msgpack": msgpack_decoder(),
    "msgpack of a type": msgpack_decoder(Trade),
    "avro": avro_decoder(schema=EVERYTHING),
    "avro of a type": avro_decoder(Everything, schema=EVERYTHING),
    "avro, recursive": avro_decoder(schema=NODE),
    "avro, lists of nothing": avro_decoder(
        schema={"type": "array", "items": {"type": "array", "items": NOTHING}}
    ),
    "avro, lists": avro_decoder(schema=LISTS),
    "avro, a decimal": avro_decoder(schema=AMOUNT),
    "protobuf": protobuf_decoder(Order),
    "csv": csv_decoder(),
    "csv of a type": csv_decoder(TradeRow),
}


@pytest.mark.parametrize("name", DECODERS)
@given(payload=st.binary(max_size=200))
def test_any_bytes_are_a_message_or_an_exception(name: str, payload: bytes) -> None:
    try:
        DECODERS[name](payload)
    except Exception as error:
        assert str(error)  # noqa: PT017  (whichever it is)


VALID = avro_encoder(EVERYTHING)(
    json_decoder(Everything)(
        b'{"flag": true, "number": 7, "real": 1.5, "data": "AAEC", "text": "text", "side": "sell",'
        b'"items": [1, 2, 3], "by_name": {"a": 1, "b": 2}, "when": "2026-01-01T00:00:00Z",'
        b'"day": "2026-01-01", "amount": "12.34", "maybe": 7,'
        b'"id": "12345678-1234-5678-1234-567812345678"}'
    )
)


@given(st.integers(0, len(VALID) - 1), st.integers(0, 255))
def test_what_is_wrong_with_avro_is_said_with_its_place(at: int, byte: int) -> None:
    decode = DECODERS["avro"]
    for payload in (VALID[:at], VALID[:at] + bytes([byte]) + VALID[at + 1 :]):
        try:
            decode(payload)
        except ValueError as error:
            told = str(error)
            assert " - at `$" in told or "does not fit" in told
            assert len(told) < 500


@given(st.data())
def test_what_is_wrong_with_protobuf_is_said_with_its_place(data: st.DataObject) -> None:
    order = Order(customer="customer", lines=[Line(item="nut", count=3)] * 3)
    valid = protobuf_encoder()(order)
    at, byte = data.draw(st.integers(0, len(valid) - 1)), data.draw(st.integers(0, 255))
    for payload in (valid[:at], valid[:at] + bytes([byte]) + valid[at + 1 :]):
        try:
            DECODERS["protobuf"](payload)
        except ValueError as error:
            assert "the message is not a valid shop.Order: " in str(error)  # noqa: PT017


BOMBS: dict[str, tuple[str, bytes]] = {
    "brackets": ("json", b"[" * 10_000_000),
    "braces": ("json", b'{"a":' * 1_000_000),
    "digits": ("json", b"9" * 10_000_000),
    "arrays": ("msgpack", b"\x91" * 10_000_000),
    "a long array": ("msgpack", b"\xdd\xff\xff\xff\xff"),
    "long arrays": ("msgpack", b"\xdd\xff\xff\xff\xff" * 100_000),
    "a long map": ("msgpack", b"\xdf\xff\xff\xff\xff"),
    "a long text": ("avro", b"\x01\x00" + b"\0" * 8 + b"\xfe" + b"\xff" * 8 + b"\x01"),
    "records": ("avro, recursive", b"\x02" * 10_000_000),
    "nothing": ("avro, lists of nothing", b"\xfe\xff\xff\xff\x0f" * 2),
    "much of nothing": ("avro, lists of nothing", b"\xfe\xff\x01" + b"\xfe\xff\x01\0" * 100_000),
    "a long decimal": ("avro, a decimal", b"\x80\xa4\xe8\x03" + b"\x7f" * 4_000_000),
    "messages": ("protobuf", b"\x1a\xff\xff\xff\x7f" * 1_000_000),
    "quotes": ("csv", b'"' * 9_999_999),
    "commas": ("csv of a type", b"," * 1_000_000),
}
_CHILD = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from tests.formats.test_hostile import BOMBS, DECODERS
for name, (decoder, payload) in BOMBS.items():
    began = time.process_time()
    try:
        DECODERS[decoder](payload)
    except MemoryError:
        raise
    except Exception as error:
        print(name, type(error).__name__, str(error)[:80])
    assert time.process_time() - began < 20, name
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_bombs_cost_little_memory_and_no_stack() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    *told, kilobytes = done.stdout.splitlines()
    assert {line.rsplit(" ", 1)[0] for line in told}
    assert int(kilobytes) < 1_500_000


@dataclass(frozen=True)
class Swelling:
    """A message that takes many times its size."""

    decoder: str
    payload: Callable[[int], bytes]
    """A message of about that many bytes."""
    times: int
    """How many times its size it takes at most."""


def listed(item: bytes) -> Callable[[int], bytes]:
    return lambda size: b"[" + item * (size // len(item)) + b"0]"


def packed(item: bytes) -> Callable[[int], bytes]:
    return lambda size: b"\xdd" + size.to_bytes(4, "big") + item * size


def of_empty_lists(size: int) -> bytes:
    count = avro_encoder("long")(size)
    return count + b"\0" * (size + 1)


SWELLING = [
    Swelling("json", listed(b"[],"), 27),
    Swelling("json", listed(b"{},"), 27),
    Swelling("json", listed(b'{"a":1},'), 27),
    Swelling("json", listed(b'"ab",'), 16),
    Swelling("json of a type", lambda size: b'{"x":' + listed(b"[],")(size) + b"}", 1),
    Swelling("msgpack", packed(b"\x90"), 76),
    Swelling("msgpack of a type", lambda size: b"\x81\xa1x" + packed(b"\x90")(size), 1),
    Swelling("avro, lists", of_empty_lists, 76),
    Swelling("protobuf", lambda size: b"\x12\x00" * (size // 2), 32),
    Swelling("protobuf", lambda size: b"\x7a\x00" * (size // 2), 3),
    Swelling("csv", lambda size: b"," * size, 11),
]
_MEASURED = 2**22
_SWELLING_CHILD = """
import os, resource
from tests.formats.test_hostile import _MEASURED, DECODERS, SWELLING
def taken():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
for swelling in SWELLING:
    if process := os.fork():
        os.waitpid(process, 0)
        continue
    payload = swelling.payload(_MEASURED)
    before = taken()
    try:
        message = DECODERS[swelling.decoder](payload)
    except ValueError:  # of a type that requires a field
        pass
    print((taken() - before) / len(payload), flush=True)
    os._exit(0)
"""


def test_a_message_takes_at_most_so_many_times_its_size() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SWELLING_CHILD],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    for swelling, times in zip(SWELLING, done.stdout.split(), strict=True):
        assert float(times) <= swelling.times, swelling


TO_STATE = 48
"""How many times its size a message of JSON takes in each process on its way to a state."""
_WAY_CHILD = """
import marshal, resource, sys
from pathlib import Path
from tests.formats.test_hostile import _MEASURED, DECODERS, listed
from wallaroo.dataflow.message_snapshots import packed, snapshot, unpacked
file = Path(sys.argv[2])
def taken():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = taken()
if file.exists():
    message = unpacked(marshal.loads(file.read_bytes()))
else:
    message = DECODERS["json"](listed(sys.argv[1].encode())(_MEASURED))
    file.write_bytes(marshal.dumps(packed([snapshot(message)])))
print((taken() - before) / _MEASURED)
"""


@pytest.mark.parametrize("item", ["[],", "{},", '{"a":1},', '"ab",'])
def test_a_message_takes_so_many_times_its_size_on_its_way_to_a_state(
    item: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _WAY_CHILD, item, str(tmp_path / "message")]
    for _process in ("first stage", "partition"):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
        assert float(done.stdout) <= TO_STATE


@settings(deadline=None)  # the first one asks the registry
@given(st.binary(max_size=60))
def test_any_bytes_after_a_header(payload: bytes) -> None:
    avro, protobuf = HEADERS
    for decode in (avro, protobuf):
        for head in (b"", b"\0\0\0\0\1", b"\0\0\0\0\2"):
            try:
                decode(head + payload)
            except Exception as error:
                assert str(error)  # noqa: PT017


@pytest.fixture(autouse=True, scope="module")
def _registry() -> Any:
    with Registry() as server:
        server.add("t", json.dumps(TRADE))
        server.add("o", ORDER_PROTO, "PROTOBUF")
        registry = SchemaRegistry(server.url)
        HEADERS[:] = [avro_decoder(registry=registry), protobuf_decoder(Order, registry=registry)]
        yield
        assert len(server.asked) < 1000


HEADERS: list[Any] = []
