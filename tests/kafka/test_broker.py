"""The brokers of the tests have ports of their own."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.kafka.broker import free_addresses


def test_no_port_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = free_addresses(1)
    port = int(first.rpartition(":")[2])
    drawn = itertools.chain([port, port], itertools.count(port + 1))
    monkeypatch.setattr(random, "randrange", lambda *_bounds: next(drawn))
    assert first not in free_addresses(2)
