from __future__ import annotations

import pytest

from tests.charts.harness import Helm, helms


@pytest.fixture(params=helms(), ids=lambda helm: helm.name, scope="session")
def helm(request: pytest.FixtureRequest) -> Helm:
    found: Helm = request.param
    return found
