"""Headers of webhooks: from the application, the environment and a file, with mistakes told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.harness import NOWHERE
from wallaroo.connectors.webhook.headers import Prepared, prepared
from wallaroo.connectors.webhook.resolve import WebhookSink
from wallaroo.errors import RuntimeFailure


def made(url: str = "http://h/a", **settings: Any) -> Prepared:
    sink = WebhookSink("hook", bytes, NOWHERE, url, **settings)
    return prepared(sink, {"KEY": "the key", "LONG": "the key and more", "BAD": "a\nb", "NO": "n"})


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h", "/"),
        ("http://h/", "/"),
        ("https://h:1/a/b?c=d#e", "/a/b?c=d"),
        ("http://h?c=d", "/?c=d"),
        ("http://h/${NO}?${NO}", "/n?n"),
    ],
)
def test_what_is_asked_for(url: str, target: str) -> None:
    assert made(url).target == target


def test_files_and_variables_give_secrets_which_are_hidden(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("X-Token: abc:def\n# X-Not: this\n\nAuthorization: Bearer tell-nobody\n")
    found = made(headers={"A": "${KEY}", "B": "x${LONG}y${NO}"}, headers_file=file)
    assert found.headers == {
        "A": "the key",
        "B": "xthe key and moreyn",
        "X-Token": "abc:def",
        "Authorization": "Bearer tell-nobody",
    }
    shown = found.redacted("the key and more, the key, abc:def, tell-nobody, n")
    assert shown == "…, …, …, …, n"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"headers": {"A": "${MISSING}"}}, "header A needs the environment variable MISSING: set"),
        ({"url": "http://h/${MISSING}"}, "url needs the environment variable MISSING: set it"),
        ({"url": "http://h/${KEY}"}, "url has characters that an address cannot have"),
        ({"headers": {"A": "${BAD}"}}, "the value of A has characters other than printable ones"),
        ({"headers_file": Path("/nowhere")}, "/nowhere, which has headers of a webhook, cannot be"),
    ],
)
def test_what_cannot_be_sent_is_told_without_secrets(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(RuntimeFailure, match=reason) as raised:
        made(**settings)
    assert "the key" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hidden", ":1 is not a header; write Name: value"),
        ("A: b\nHost: hidden", "Host is set by the sink"),
        ("Content-Type: hidden", "Content-Type is set by the sink; pass content_type"),
        ("A b: hidden", "'A b' is not the name of a header"),
        ("A: hidden\x07", "the value of A has characters other than printable ones of ASCII"),
        ("A: è", "cannot be read: it is not ASCII"),
    ],
)
def test_mistakes_in_a_file_are_told_without_secrets(
    text: str, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "headers"
    file.write_text(text)
    with pytest.raises(RuntimeFailure) as raised:
        made(headers_file=file)
    assert reason in str(raised.value)
    assert "hidden" not in str(raised.value)
