"""Schemas come from a registry: once each, and messages wait for it rather than being lost."""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.formats.kinds import ORDER_PROTO, TRADE, Line, Note, Order, Trade
from tests.formats.registry import Registry
from wallaroo.codecs import (
    SchemaRegistry,
    SchemaRegistryError,
    avro_decoder,
    avro_encoder,
    json_decoder,
    json_encoder,
    protobuf_decoder,
    protobuf_encoder,
)
from wallaroo.codecs.waiting import without_waiting

VARIABLE = "WALLAROO_SCHEMA_REGISTRY_SETTINGS"
PASSWORD = "open sesame"


@pytest.fixture
def server() -> Iterator[Registry]:
    with Registry() as server:
        yield server


def in_background(call: Callable[[], Any]) -> Callable[[], Any]:
    """Begin *call*; a function that returns its result."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(60)
        assert results, "it still waits"
        return results[0]

    return result


def test_a_schema_is_asked_for_once(server: Registry) -> None:
    server.add("trades-value", json.dumps(TRADE))
    registry = SchemaRegistry(server.url)
    encode = avro_encoder(registry=registry, subject="trades-value")
    decode = avro_decoder(Trade, registry=registry)
    assert not server.asked
    for price in (1.5, 2.5):
        payload = encode(Trade("ABC", price))
        assert payload[:5] == b"\0\0\0\0\1"
        assert decode(payload) == Trade("ABC", price)
    assert server.asked == ["GET /subjects/trades-value/versions/latest", "GET /schemas/ids/1"]


def test_a_reader_sees_its_own_version_of_each_writer(server: Registry) -> None:
    old = server.add("trades-value", json.dumps(TRADE))
    fields = [*TRADE["fields"], {"name": "note", "type": "string", "default": "none"}]
    new = {**TRADE, "fields": fields}
    decode = avro_decoder(schema=new, registry=SchemaRegistry(server.url))
    header = b"\0" + old.to_bytes(4, "big")
    payload = header + avro_encoder(TRADE)({"symbol": "ABC", "price": 1.5})
    assert decode(payload) == {"symbol": "ABC", "price": 1.5, "note": "none"}
    number = server.add("trades-value", json.dumps(new))
    value = {"symbol": "ABC", "price": 1.5, "note": "new"}
    newer = b"\0" + number.to_bytes(4, "big") + avro_encoder(new)(value)
    assert decode(newer) == value
    assert avro_decoder(schema=TRADE, registry=SchemaRegistry(server.url))(newer) == {
        "symbol": "ABC",
        "price": 1.5,
    }


def test_a_schema_may_refer_to_others(server: Registry) -> None:
    money = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
    server.add("money", json.dumps(money))
    paid = {"type": "record", "name": "Paid", "fields": [{"name": "sum", "type": "Money"}]}
    references = [{"name": "Money", "subject": "money", "version": 1}]
    server.add("paid-value", json.dumps(paid), references=references)
    registry = SchemaRegistry(server.url)
    encode = avro_encoder(registry=registry, subject="paid-value")
    assert avro_decoder(registry=registry)(encode({"sum": {"cents": 7}})) == {"sum": {"cents": 7}}


def test_an_encoder_looks_a_schema_up_and_registers_it_only_if_told_to(server: Registry) -> None:
    registry, text = SchemaRegistry(server.url), json.dumps(TRADE)
    trade = {"symbol": "ABC", "price": 1.5}
    with without_waiting(), pytest.raises(SchemaRegistryError, match=r"'trades-value'.*not found"):
        avro_encoder(text, registry=registry, subject="trades-value")(trade)
    assert not server.schemas
    registering = avro_encoder(text, registry=registry, subject="trades-value", register=True)
    payload = registering(trade)
    assert avro_encoder(text, registry=registry, subject="trades-value")(trade) == payload
    assert [schema["schema"] for schema in server.schemas.values()] == [text]


def test_json_with_a_header(server: Registry) -> None:
    registry = SchemaRegistry(server.url)
    schema = {"type": "object"}
    encode = json_encoder(registry=registry, subject="trades", schema=schema, register=True)
    payload = encode(Trade("ABC", 1.5))
    assert payload[:6] == b"\0\0\0\0\1{"
    assert json_decoder(Trade, registry=registry)(payload) == Trade("ABC", 1.5)
    avro = server.add("other", json.dumps(TRADE))
    with pytest.raises(ValueError, match=f"schema {avro}, which is of type AVRO, not JSON"):
        json_decoder(registry=registry)(b"\0" + avro.to_bytes(4, "big") + b"{}")


def test_protobuf_tells_the_messages_of_a_file_apart(server: Registry) -> None:
    server.add("orders-value", ORDER_PROTO, "PROTOBUF")
    registry = SchemaRegistry(server.url)
    encode = protobuf_encoder(registry=registry, subject="orders-value")
    order, line, note = Order(customer="c"), Line(item="nut"), Order.Note(text="t")
    assert encode(line)[:6] == b"\0\0\0\0\1\0"
    assert encode(order)[:7] == b"\0\0\0\0\1\x02\x02"
    assert encode(note)[:8] == b"\0\0\0\0\1\x04\x02\0"
    for kind, message in ((Order, order), (Line, line), (Note, note)):
        decode = protobuf_decoder(kind, registry=registry)
        payload = encode(message)
        assert decode(payload) == message
    with pytest.raises(ValueError, match=r"a shop\.Line of the schema 1, not a shop\.Order"):
        protobuf_decoder(Order, registry=registry)(encode(line))
    with pytest.raises(ValueError, match="follow the header"):
        protobuf_decoder(Order, registry=registry)(b"\0\0\0\0\1\x04\x02")


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b"", "expected a zero byte"),
        (b"\1\0\0\0\1abc", "expected a zero byte"),
        (b"\0\0\0", "expected a zero byte"),
        (b"\0\0\0\0\x63abc", "has the schema 99, which SchemaRegistry"),
    ],
)
def test_a_message_that_is_at_fault_is_refused(server: Registry, payload: bytes, told: str) -> None:
    decode = avro_decoder(registry=SchemaRegistry(server.url))
    for _ in range(3):
        with pytest.raises(ValueError, match=told):
            decode(payload)
    assert len(server.asked) <= 1  # an unknown number is not asked for again at once


@dataclass
class Fault:
    name: str
    answer: tuple[int, bytes, dict[str, str]]
    told: str


FAULTS = [
    Fault("broken", (500, b"oops", {}), "500 Internal Server Error"),
    Fault("busy", (429, b'{"error_code": 429, "message": "slow down"}', {}), "slow down"),
    Fault("other path", (404, b"<html>", {}), "404 Not Found"),
    Fault("no json", (200, b"<html>", {}), "not that of a schema registry: b'<html>'"),
    Fault("no schema", (200, b"{}", {}), "the answer has no schema"),
    Fault("redirect", (302, b"", {"Location": "http://elsewhere/"}), "redirects are not followed"),
    Fault("cut off", (200, b'{"schema": "str', {"Content-Length": "99"}), "not that of a schema"),
    Fault("nested", (200, b"[" * 100_000, {}), "not that of a schema registry"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_messages_wait_for_a_registry_that_is_at_fault(
    server: Registry, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    number = server.add("trades-value", json.dumps(TRADE))
    payload = b"\0" + number.to_bytes(4, "big") + avro_encoder(TRADE)(Trade("ABC", 1.5))
    decode = avro_decoder(Trade, registry=SchemaRegistry(server.url))
    server.answers = [fault.answer]
    with without_waiting(), pytest.raises(SchemaRegistryError, match=fault.told):
        decode(payload)
    server.answers = [fault.answer] * 2
    with caplog.at_level(logging.WARNING):
        assert decode(payload) == Trade("ABC", 1.5)
    assert len(server.asked) == 4
    (line,) = caplog.messages  # not one for each attempt
    assert fault.told in line
    assert "messages have waited" in line


def test_messages_wait_for_a_registry_that_is_away(server: Registry) -> None:
    registry = SchemaRegistry(f"http://127.0.0.1:{server.port}")
    server.__exit__()
    wait = in_background(lambda: avro_encoder(registry=registry, subject="t")(Trade("ABC", 1.5)))
    with Registry(port=server.port) as back:
        back.add("t", json.dumps(TRADE))
        assert wait().startswith(b"\0\0\0\0\1")


def test_outputs_wait_until_their_subject_exists(server: Registry) -> None:
    registry = SchemaRegistry(server.url)
    wait = in_background(lambda: avro_encoder(registry=registry, subject="t")(Trade("ABC", 1.5)))
    server.wait_until_asked(2)
    server.add("t", json.dumps(TRADE))
    assert wait().startswith(b"\0\0\0\0\1")


def test_another_address_is_asked_if_one_does_not_answer(server: Registry) -> None:
    with Registry() as gone:
        pass
    server.add("t", json.dumps(TRADE))
    registry = SchemaRegistry(f"{gone.url}, {server.url}")
    with without_waiting():
        assert avro_encoder(registry=registry, subject="t")(Trade("A", 1.0))[:5] == b"\0\0\0\0\1"


def test_tls_and_a_password_come_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    authority, settings = trustme.CA(), tmp_path / "settings"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "client.pem"
    )
    with Registry(context, f"ada:{PASSWORD}") as server:
        server.add("t", json.dumps(TRADE))
        encode = avro_encoder(
            registry=SchemaRegistry(server.url, settings_file=settings), subject="t"
        )

        def refused(told: str) -> None:
            with without_waiting(), pytest.raises(SchemaRegistryError, match=told) as caught:
                encode(Trade("ABC", 1.5))
            assert PASSWORD not in str(caught.value)

        refused("settings cannot be read: No such file")
        settings.write_text("# none\n")
        refused("certificate")
        monkeypatch.setenv(VARIABLE, str(tmp_path / "of environment"))
        (tmp_path / "of environment").write_text(
            f"ssl.ca.location={tmp_path}/ca.pem\nssl.certificate.location={tmp_path}/client.pem\n"
        )
        refused("401 Unauthorized: Unauthorized; credentials come from")
        settings.write_text(f"basic.auth.user.info=ada:{PASSWORD}!\n")
        refused("401")
        settings.write_text(f"basic.auth.user.inf=ada:{PASSWORD}\n")
        refused("settings:1 is not a setting; expected name=value with basic.auth.user.info")
        settings.write_text(f"basic.auth.user.info=ada:{PASSWORD}\n")
        assert encode(Trade("ABC", 1.5)).startswith(b"\0\0\0\0\1")
    assert PASSWORD not in caplog.text + repr(encode.function)


def test_an_answer_that_never_ends_is_given_up(
    server: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wallaroo.codecs._http._LARGEST", 1000)
    server.answers = [(200, b" " * 2000, {})]
    with without_waiting(), pytest.raises(SchemaRegistryError, match="more than 1000 bytes"):
        avro_decoder(registry=SchemaRegistry(server.url))(b"\0\0\0\0\1")
