"""Tests on a cluster run when they are asked for by their mark alone: `make test-cluster`."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Generator, Iterator

import pytest

from tests.cluster.harness import Cluster, CommandFailedError, Peer, Release, run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report what each release of a failed test does."""
    report = yield
    if report.failed and call.when == "call":
        for release in item.funcargs.values():
            if isinstance(release, Release):
                with contextlib.suppress(CommandFailedError):
                    report.sections.append((f"Release {release.name}", release.story()))
    return report


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The current context's cluster, and a namespace that goes with the tests."""
    if shutil.which("kubectl") is None:
        pytest.fail("there is no kubectl on the PATH")
    namespace = f"wallaroo-test-{secrets.token_hex(3)}"
    run(["kubectl", "create", "namespace", namespace])
    yield Cluster(namespace)
    run(["kubectl", "delete", "namespace", namespace, "--timeout=120s"])


@pytest.fixture(scope="session")
def helms() -> list[str]:
    """The helm commands on the PATH: helm3 and helm4, or what is called helm."""
    found = [command for name in ("helm3", "helm4") if (command := shutil.which(name))]
    if not found and (helm := shutil.which("helm")):
        found = [helm]
    if not found:
        pytest.fail("there is no helm on the PATH")
    return found


@pytest.fixture(scope="module")
def market_spread(cluster: Cluster, helms: list[str]) -> Release:
    """Market Spread under the older helm, not installed yet."""
    values = {"dashboard": {"enabled": True}, "networkPolicy": {"monitors": [{"podSelector": {}}]}}
    return Release(cluster, helms[0], "market-spread", "market-spread", values)


@pytest.fixture(scope="module")
def market_peer(market_spread: Release) -> Iterator[Peer]:
    """What sends to Market Spread, and takes its outputs."""
    with Peer(market_spread) as peer:
        yield peer


@pytest.fixture(scope="module")
def word_count(cluster: Cluster, helms: list[str]) -> Release:
    """Word Count under the newer helm, with a name that is not the chart's; not installed yet."""
    secret = "word-count-token"
    cluster.kubectl("create", "secret", "generic", secret, f"--from-literal=token={'t' * 16}")
    values = {
        "partitions": 4,
        "executor.podDisruptionBudget": {"enabled": True},
        "dashboard": {"enabled": True, "tokenSecret": secret},
    }
    return Release(cluster, helms[-1], "words", "word-count", values)


@pytest.fixture(scope="module")
def word_peer(word_count: Release) -> Iterator[Peer]:
    """What sends to Word Count, and takes its outputs."""
    with Peer(word_count) as peer:
        yield peer
