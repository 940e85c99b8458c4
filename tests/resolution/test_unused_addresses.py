"""`wallaroo run` reports addresses on its command line that no source or sink uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.loading.loader import ApplicationRef
from wallaroo.resolution.unused_addresses import unused_addresses

APP = """\
import wallaroo

decode = wallaroo.decoder(header_length=4, length_fmt=">I")(lambda payload: payload)
encode = wallaroo.encoder(lambda output: output)


def application_setup(args):
    host, port = {}
    source = wallaroo.TCPSourceConfig(host, port, decode)
    pipeline = wallaroo.source("Lines", source)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, encode)
    return wallaroo.build_application("Lines", pipeline.to_sink(sink))
"""
FROM_ARGS, FIXED = "wallaroo.tcp_parse_input_addrs(args)[0]", '"127.0.0.1", 7010'


@pytest.mark.parametrize(
    ("address", "args", "unused"),
    [
        (FIXED, (), []),
        (FIXED, ("--in", "127.0.0.1:7011"), ["--in 127.0.0.1:7011"]),
        (
            FIXED,
            ("--in", "127.0.0.1:99999", "--out", "nowhere"),
            ["--in 127.0.0.1:99999", "--out nowhere"],
        ),
        (FIXED, ("--in", "Lines@127.0.0.1:7010", "--out", "127.0.0.1:7002"), []),
        (FROM_ARGS, ("--in", "localhost:7011"), []),
        (FROM_ARGS, ("--in", "-"), []),
        (FROM_ARGS, ("--in", "-,-"), ["--in -"]),
        (FROM_ARGS, ("--in", "-,127.0.0.1:0"), ["--in 127.0.0.1:0"]),
        (FIXED, ("--in", "-", "--out", "-"), ["--in -", "--out -"]),
        (FROM_ARGS, ("--in", "localhost:7011,127.0.0.1:7012"), ["--in 127.0.0.1:7012"]),
    ],
)
def test_addresses_that_are_not_used_are_told(
    address: str, args: tuple[str, ...], unused: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "lines.py"
    file.write_text(APP.format(address))
    found = [*unused_addresses(ApplicationRef(str(file), args).load(), args)]
    assert [f"{one.option} {','.join(one.addresses)}" for one in found] == unused
    for one in found:
        function = {"--in": "tcp_parse_input_addrs", "--out": "tcp_parse_output_addrs"}[one.option]
        assert one.advice == f"take them from {function}(args) in application_setup"
