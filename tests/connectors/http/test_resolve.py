"""HTTP sources in the normal form, and what is refused."""

from __future__ import annotations

import wallaroo
from tests.resolution.declared import begun, only_problem, problems, this_line
from wallaroo.connectors.http.resolve import HTTPSource
from wallaroo.resolution.application import resolve
from wallaroo.wire.framing import Framing

HERE = "test_resolve.py"


def test_a_source_of_http_listens_and_takes_any_function_as_its_decoder() -> None:
    config = wallaroo.HTTPSourceConfig(
        "h", "7", bytes.decode, path="/in", max_size=9, origins=["*"]
    )
    (source,) = resolve(begun(config).done().build()).sources
    assert isinstance(source, HTTPSource)
    assert (source.address, source.path, source.label) == (("h", 7), "/in", "HTTP source")
    assert source.framing == Framing(4, ">I", 9)
    assert source.origins == ("*",)
    assert source.at_port(8).address == ("h", 8)


def test_a_source_of_http_without_a_path_is_told_with_its_line() -> None:
    at = this_line() + 1
    config = wallaroo.HTTPSourceConfig("h", 7, bytes.decode, path="in")
    assert problems(begun(config).done())[0] == (
        f"{HERE}:{at}: pipeline 'lines': path is 'in'; expected a text that begins with /"
    )


def test_a_source_of_http_whose_path_has_a_query_is_told() -> None:
    config = wallaroo.HTTPSourceConfig("h", 7, bytes.decode, path="/a?b")
    assert only_problem(begun(config).done()).endswith(
        ": pipeline 'lines': path is '/a?b'; expected a path alone, without ? and #"
    )


def test_origins_that_are_none_are_told() -> None:
    config = wallaroo.HTTPSourceConfig("h", 7, bytes.decode, origins=["shop.example.org"])
    assert only_problem(begun(config).done()).endswith(
        ": pipeline 'lines': origins has 'shop.example.org'; expected '*' or an origin, a scheme "
        "and a host without a path, such as 'https://shop.example.org'"
    )
