"""A release that cannot run says what is wrong and how to mend it, in its status and its logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.harness import Cluster, Release, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@contextmanager
def installed(cluster: Cluster, helm: str, name: str, **values: Any) -> Iterator[Release]:
    release = Release(cluster, helm, name, "word-count", values)
    release.install()
    try:
        yield release
    finally:
        release.uninstall()


def wait_for_problem(release: Release, *parts: str) -> None:
    wait_for(
        f"a problem with {parts}",
        lambda: all(part in release.problems() for part in parts),
    )


def test_an_image_that_cannot_be_pulled(cluster: Cluster, helms: list[str]) -> None:
    image = {"repository": "localhost/nothing", "tag": "none"}
    with installed(cluster, helms[-1], "no-image", image=image) as release:
        wait_for_problem(release, "localhost/nothing:none", "check image.repository, image.tag")


def test_a_role_that_is_missing(cluster: Cluster, helms: list[str]) -> None:
    with installed(cluster, helms[-1], "no-role", rbac={"create": False}) as release:
        wait_for_problem(
            release,
            "driver ended with exit code 1",
            "the ConfigMap no-role-word-count-workers cannot be read",
            "service account must be allowed",
        )


def test_a_volume_that_is_not_there(cluster: Cluster, helms: list[str]) -> None:
    storage = {"journal": {"storageClass": "no-such-class"}}
    with installed(cluster, helms[-1], "no-volume", storage=storage) as release:
        wait_for_problem(release, "gateway-0: no node takes it", "PersistentVolumeClaim")
