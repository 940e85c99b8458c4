"""What tests of the dashboard share."""

from __future__ import annotations

import pytest

from tests.dashboard.feed import Feed


@pytest.fixture
def feed() -> Feed:
    return Feed()
