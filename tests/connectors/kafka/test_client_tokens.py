"""What a function for tokens may return, and with which settings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.helpers import PATIENCE_S
from wallaroo.connectors.kafka.client import TopicClient
from wallaroo.connectors.kafka.tokens import NO_TOKEN, Tokens
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.errors import RuntimeFailure


def client(oauth: Any, **settings: str) -> TopicClient:
    options = {name.replace("_", "."): value for name, value in settings.items()}
    return TopicClient(Topic("orders", "a:1", options, oauth=oauth), threading.Event())


def in_a_minute() -> tuple[str, datetime]:
    return "token", datetime.now(UTC) + timedelta(minutes=1)


@pytest.mark.parametrize("oauth", [in_a_minute, lambda: ("token", time.time() + 60)])
def test_an_expiry_is_a_datetime_or_seconds(oauth: Callable[[], Any]) -> None:
    token, expires = Tokens(oauth)("")
    assert token == "token"
    assert 50 < expires - time.time() <= 60


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, "returned an object of class NoneType; expected a token and when it expires"),
        (("token", 1.0, "more"), "returned an object of class tuple"),
        (("token", "2030-01-01"), "returned an object of class tuple"),
        (("token", datetime(2100, 1, 1)), "returned an object of class tuple"),
        (("token", 1_700_000_000), "returned a token that has expired"),
        (("token", 1_700_000_000_000), "returned a token that expires in more than ten years"),
    ],
)
def test_what_is_no_token_is_told(returned: Any, told: str) -> None:
    tokens = Tokens(lambda: returned)
    assert tokens("") == NO_TOKEN
    assert told in (tokens.problem or "")


def test_other_settings_of_sasl_are_refused() -> None:
    client(in_a_minute, sasl_mechanism="OAUTHBEARER", security_protocol="sasl_plaintext").check()
    client(in_a_minute).check()
    for wrong in ({"sasl_mechanism": "PLAIN"}, {"security_protocol": "SSL"}):
        with pytest.raises(RuntimeFailure, match=r"oauth= is for sasl\.mechanism=OAUTHBEARER"):
            client(in_a_minute, **wrong)


def test_a_function_that_does_not_return_holds_up_no_other_topic() -> None:
    waiting, entered = threading.Event(), threading.Event()

    def blocks() -> tuple[str, float]:
        entered.set()
        waiting.wait()
        return "token", time.time() + 60

    blocked = client(blocks)
    threading.Thread(target=lambda: blocked._admin, daemon=True).start()
    assert entered.wait(PATIENCE_S)
    assert TopicClient(Topic("quotes", "a:1"), threading.Event())._admin is not None
    waiting.set()
