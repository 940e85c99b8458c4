"""Sinks of server-sent events in the normal form, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import wallaroo
from tests.applications.counting import as_line
from tests.resolution.declared import begun, only_problem
from wallaroo.connectors.sse.resolve import SSESink
from wallaroo.resolution.application import resolve

unchecked: Any = wallaroo
"""The API as an author has it who uses no type checker."""


def sse(**settings: Any) -> Any:
    return unchecked.SSESinkConfig("127.0.0.1", "7020", as_line, **settings)


def test_a_sink_of_events_listens() -> None:
    config = sse(path="/prices", event="price", origins=["https://a.example"], token_file="token")
    (sink,) = resolve(begun().to_sink(config).build()).sinks
    assert isinstance(sink, SSESink)
    assert (sink.address, sink.where, sink.path) == (
        ("127.0.0.1", 7020),
        "127.0.0.1:7020",
        "/prices",
    )
    assert (sink.label, sink.origins) == ("server-sent events", ("https://a.example",))
    assert sink.token_file is not None
    assert sink.token_file.is_absolute()
    moved = sink.at_port(8)
    assert (moved.port, moved.path) == (8, "/prices")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"path": "prices"}, "path is 'prices'; expected a text that begins with /"),
        ({"path": "/a#b"}, "path is '/a#b'; expected a path alone, without ? and #"),
        ({"event": "a\nb"}, "event is 'a\\nb'; expected a name on one line, or None"),
        (
            {"origins": "https://a.example"},
            "origins is the text 'https://a.example'; expected a list: ['https://a.example']",
        ),
        (
            {"origins": ["a.example/b"]},
            "origins has 'a.example/b'; expected '*' or an origin, a scheme and a host without a "
            "path, such as 'https://shop.example.org'",
        ),
        ({"viewers": 0}, "viewers is 0; expected a whole number of at least 1"),
        ({"keep_bytes": 1e6}, "keep_bytes is 1000000.0; expected a whole number of at least 65536"),
    ],
)
def test_settings_of_a_sink_of_events_that_make_no_sense_are_told(
    settings: dict[str, Any], problem: str
) -> None:
    config = sse(**settings)
    told = only_problem(begun().to_sink(config))
    assert told.endswith(f": pipeline 'lines': {problem}")
