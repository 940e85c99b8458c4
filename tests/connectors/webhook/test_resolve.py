"""Sinks of webhooks in the normal form, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import wallaroo
from tests.applications.counting import as_line
from tests.resolution.declared import begun, only_problem
from wallaroo.connectors.webhook.resolve import WebhookSink
from wallaroo.resolution.application import resolve

unchecked: Any = wallaroo
"""The API as an author has it who uses no type checker."""


def hook(url: Any = "https://h.example/in", **settings: Any) -> Any:
    return unchecked.WebhookSinkConfig(url, as_line, **settings)


def test_a_sink_of_webhooks_posts_to_its_address() -> None:
    config = hook("https://h.example:8443/in?a=1", batch=5, headers_file="headers")
    (sink,) = resolve(begun().to_sink(config).build()).sinks
    assert isinstance(sink, WebhookSink)
    assert (sink.where, sink.label) == ("https://h.example:8443/in", "webhook h.example:8443")
    assert (sink.content_type, sink.address, sink.problem) == ("application/x-ndjson", None, None)
    assert sink.headers_file is not None
    assert sink.headers_file.is_absolute()
    for settings in ({}, {"batch": 5, "batch_format": "array"}):
        (sink,) = resolve(begun().to_sink(hook(**settings)).build()).sinks
        assert isinstance(sink, WebhookSink)
        assert sink.content_type == "application/json"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"url": 7}, "url is 7; expected an address such as 'https://hooks.example.org/orders'"),
        *(
            (
                {"url": url},
                f"url is {url!r}; expected an address such as 'https://hooks.example.org/orders'",
            )
            for url in ("h.example/in", "ftp://h", "http://", "http://h:x/", "http://h/a b")
        ),
        (
            {"url": "https://me:secret@h.example/"},
            "url has a user or a variable before its path; write the credentials to a file of "
            "headers, and pass headers_file",
        ),
        ({"batch": 0}, "batch is 0; expected a whole number of at least 1"),
        ({"batch_format": "json"}, "batch_format is 'json'; expected 'lines' or 'array'"),
        ({"on_refused": "drop"}, "on_refused is 'drop'; expected 'set-aside' or 'wait'"),
        ({"attempts": 0}, "attempts is 0; expected a whole number of at least 1"),
        ({"timeout_s": 0}, "timeout_s is 0; expected a number of seconds above 0"),
        (
            {"headers": {"Authorization": "Bearer abc"}},
            "headers has 'Authorization', a secret: write it to a file and pass headers_file, or "
            "take it from an environment variable, as in '${NAME}'",
        ),
        ({"headers": {"A": 7}}, "headers: the value of A is int; expected a text"),
        ({"headers": {"Host": "h"}}, "headers: Host is set by the sink"),
    ],
)
def test_settings_of_a_sink_of_webhooks_that_make_no_sense_are_told(
    settings: dict[str, Any], problem: str
) -> None:
    told = only_problem(begun().to_sink(hook(**settings)))
    assert told.endswith(f": pipeline 'lines': {problem}")


def test_secrets_that_are_sent_without_tls_are_hinted_at() -> None:
    config = hook("http://h.example/in", headers={"Authorization": "Bearer ${TOKEN}"})
    (hint,) = resolve(begun().to_sink(config).build()).hints
    assert hint.endswith(
        "pipeline 'lines': the headers of http://h.example are sent without TLS, and so are the "
        "secrets in them; use https"
    )
    for harmless in (hook("http://localhost:1/", headers_file="x"), hook("http://h/")):
        assert not resolve(begun().to_sink(harmless).build()).hints
