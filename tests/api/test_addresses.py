"""Addresses on the command line: what they may look like, and what is said of the others."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import wallaroo
from wallaroo.api.addresses import (
    parse_address,
    tcp_parse_input_addrs,
    tcp_parse_output_addrs,
)
from wallaroo.errors import UsageError, WallarooParameterError


def test_an_address_unpacks_as_host_and_port() -> None:
    host, port = parse_address("example.org:7010", "--in")
    assert (host, port) == ("example.org", "7010")


def test_an_address_may_have_a_name() -> None:
    address: Any = parse_address("Market Data@127.0.0.1:7011", "--in")
    assert address == ("Market Data", "127.0.0.1", "7011")
    assert address.name == "Market Data"


@pytest.mark.parametrize(("text", "name"), [("Orders@a:1", "Orders"), ("a:1", "")])
def test_an_address_unpacks_as_either_generation_unpacks_it(text: str, name: str) -> None:
    (only,) = tcp_parse_input_addrs(["--in", text])
    host, port = only
    assert (host, port) == ("a", "1")
    assert [(h, p) for h, p in [only]] == [("a", "1")]
    three: tuple[Any, ...] = only
    told, host, port = three
    assert (told, host, port) == (name, "a", "1")
    assert [(n, h) for n, h, _ in [three]] == [(name, "a")]


def parts(*given: str) -> tuple[str, ...]:
    return given


def test_a_named_address_has_three_parts_wherever_it_is_not_unpacked() -> None:
    only: Any = parse_address("Orders@a:1", "--in")
    assert (*only,) == tuple(only) == parts(*only) == (only[0], only[1], only[2])
    assert tuple(only) == ("Orders", "a", "1") == only
    assert len(only) == len(list(only)) == 3
    assert only[-1] == only.port == "1"


def test_an_address_without_a_name_has_two_parts_wherever_it_is_not_unpacked() -> None:
    only = parse_address("a:1", "--in")
    assert (*only,) == tuple(only) == parts(*only) == (only[0], only[1]) == ("a", "1")
    assert len(only) == len(list(only)) == 2


def test_addresses_are_found_by_their_names() -> None:
    addresses: Any = tcp_parse_input_addrs(["--in", "Orders@a:1,Market Data@b:2"])
    found = {ip[0]: {"host": ip[1], "port": ip[2]} for ip in addresses}
    assert found["Market Data"] == {"host": "b", "port": "2"}


def test_a_name_that_the_application_uses_is_asked_for() -> None:
    only: Any = tcp_parse_input_addrs(["--in", "a:1"])[0]
    with pytest.raises(UsageError, match=r"a:1 has no name.*write NAME@a:1"):
        only[2]


@pytest.mark.parametrize("text", ["Orders@a:1", "a:1"])
def test_a_copy_of_an_address_is_alike(text: str) -> None:
    address = parse_address(text, "--in")
    copied: Any
    for copied in (copy.copy(address), copy.deepcopy(address), pickle.loads(pickle.dumps(address))):
        assert (copied, copied.name) == (address, address.name)
        host, port = copied
        assert (host, port) == ("a", "1")


def test_an_address_without_a_name_has_none() -> None:
    assert parse_address("127.0.0.1:7011", "--in").name is None


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert tuple(parse_address("Orders@[fe80::1]:0", "--in"))[1:] == ("fe80::1", "0")


def test_space_around_an_address_is_no_part_of_it() -> None:
    assert tcp_parse_input_addrs(["--in", "a:1, b:2"]) == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize("option", ["--in", "-i"])
def test_inputs_are_read_in_order(option: str) -> None:
    args = ["--workers", "2", option, "a:1,N@b:2", "--out", "c:3"]
    assert list(map(tuple, tcp_parse_input_addrs(args))) == [("a", "1"), ("N", "b", "2")]


def test_an_output_address_has_two_parts_whether_it_has_a_name_or_not() -> None:
    for text in "Name@c:3", "c:3":
        (only,) = tcp_parse_output_addrs(["--out", text])
        assert tuple(only) == only == ("c", "3")


def test_the_last_of_several_options_counts() -> None:
    assert tcp_parse_input_addrs(["--in", "a:1", "-i", "b:2"]) == [("b", "2")]


@pytest.mark.parametrize("args", [["--out", "c:3"], ["-o", "c:3"], ["--out=c:3"], ["-o=c:3"]])
def test_outputs_are_read_however_the_option_is_written(args: list[str]) -> None:
    assert tcp_parse_output_addrs(args) == [("c", "3")]


@pytest.mark.parametrize(
    "port", ["", "http", "-1", "65536", "7010x", "٧", "1.5", "9" * 5000, "0" * 5000]
)
def test_a_bad_port_is_a_usage_error(port: str) -> None:
    with pytest.raises(UsageError, match=r"^--in: "):
        parse_address(f"127.0.0.1:{port}", "--in")


@pytest.mark.parametrize("text", ["", ":", ":7010", "7010", "host", "@", "name@", "[]:1"])
def test_what_is_no_address_is_a_usage_error_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"write HOST:PORT, for example 127\.0\.0\.1:7010"):
        parse_address(text, "--in")


@pytest.mark.parametrize("host", ["a..b", ".a", f"{'x' * 64}.de", "a\0b"])
def test_a_host_that_cannot_be_looked_up_is_a_usage_error(host: str) -> None:
    with pytest.raises(UsageError, match=r"^--in: .* has an invalid host name"):
        parse_address(f"{host}:7010", "--in")


@pytest.mark.parametrize("args", [[], ["--out", "a:1"], ["in", "a:1"]])
def test_a_missing_option_is_told_by_name(args: list[str]) -> None:
    with pytest.raises(UsageError, match=r"--in is missing.* add --in HOST:PORT"):
        tcp_parse_input_addrs(args)


def test_an_option_without_a_value_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"--in: '' is not an address"):
        tcp_parse_input_addrs(["--in"])


def test_too_few_addresses_are_told_when_one_is_asked_for() -> None:
    addresses = tcp_parse_input_addrs(["--in", "a:1"])
    with pytest.raises(UsageError, match=r"--in has 1 address.*uses address number 2"):
        addresses[1]


def test_some_addresses_are_taken_as_of_any_list() -> None:
    addresses = tcp_parse_input_addrs(["--in", "a:1,b:2,c:3"])
    assert addresses[:2] == [("a", "1"), ("b", "2")]
    assert addresses[-1] == ("c", "3")


@pytest.mark.parametrize("text", ["-", " - ", "Orders@-"])
def test_a_dash_stands_for_standard_input_or_output(text: str) -> None:
    named: Any
    named, other = tcp_parse_input_addrs(["--in", f"{text},b:2"])
    name, host, port = named
    assert (name, host, port) == ("Orders" if "@" in text else "", "-", "0")
    assert other == ("b", "2")
    (sink,) = tcp_parse_output_addrs(["--out", text])
    assert tuple(sink) == ("-", "0")


@pytest.mark.parametrize("text", ["-:7010", "Orders@-:7010", "--", "-:"])
def test_a_dash_has_no_port(text: str) -> None:
    with pytest.raises(UsageError, match="is not an address; write HOST:PORT"):
        tcp_parse_input_addrs(["--in", text])


def test_only_tcp_configurations_take_a_dash() -> None:
    assert wallaroo.TCPSinkConfig("-", 0, str).host == "-"
    with pytest.raises(WallarooParameterError, match="the host is '-', which only"):
        wallaroo.HTTPSourceConfig("-", 0, bytes.decode)
    with pytest.raises(WallarooParameterError, match="the host is '-', which only"):
        wallaroo.SSESinkConfig("-", 0, str)
