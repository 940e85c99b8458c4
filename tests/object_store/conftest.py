"""One server for the tests of a file, and the network in front of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.object_store.proxy import Proxy
from tests.object_store.server import BUCKET, KEY, SECRET, NotAvailable, Server
from wallaroo.engine.spark import s3
from wallaroo.system.object_store import ObjectPath, filesystem


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        running = Server(tmp_path_factory.mktemp("objects"))
    except NotAvailable as reason:
        pytest.skip(str(reason))
    yield running
    running.stop()


@pytest.fixture
def network(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The network, to the store that the environment names."""
    with Proxy(server.address) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        filesystem.cache_clear()
        yield proxy
        filesystem.cache_clear()


@pytest.fixture
def folder(network: Proxy, request: pytest.FixtureRequest) -> ObjectPath:
    """A folder for one test."""
    return ObjectPath.at(f"s3a://{BUCKET}/{request.node.name[:40].replace('[', '-').rstrip(']')}")


@pytest.fixture(scope="session")
def jars() -> None:
    """The jars for S3, in the user's cache."""
    if shutil.which("mvn") is None and not s3.jars():
        pytest.skip("the jars for S3 cannot be fetched: mvn is not installed")
    s3.fetch()
