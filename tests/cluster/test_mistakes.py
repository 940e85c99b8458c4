"""A release that cannot run says what is wrong and how to mend it, in its status and its logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.cluster.harness import Cluster, Release, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


MISTAKES: Mapping[str, Mapping[str, Any]] = {
    "no-image": {"image": {"repository": "localhost/nothing", "tag": "none"}},
    "no-role": {"rbac": {"create": False}},
    "no-volume": {"storage": {"journal": {"storageClass": "no-such-class"}}},
}
"""Values, by release."""


@pytest.fixture(scope="module")
def releases(cluster: Cluster, helms: list[str]) -> Iterator[dict[str, Release]]:
    """All of them beside each other."""
    made = {n: Release(cluster, helms[-1], n, "word-count", v) for n, v in MISTAKES.items()}
    for release in made.values():
        release.install()
    yield made
    for release in made.values():
        release.uninstall()


def wait_for_problem(release: Release, *parts: str) -> None:
    wait_for(
        f"a problem with {parts}",
        lambda: all(part in release.problems() for part in parts),
    )


def test_an_image_that_cannot_be_pulled(releases: dict[str, Release]) -> None:
    wait_for_problem(
        releases["no-image"], "localhost/nothing:none", "check image.repository, image.tag"
    )


def test_a_role_that_is_missing(releases: dict[str, Release]) -> None:
    wait_for_problem(
        releases["no-role"],
        "driver ended with exit code 1",
        "the ConfigMap no-role-word-count-workers cannot be read",
        "ServiceAccount must be allowed",
    )


def test_a_volume_that_is_not_there(releases: dict[str, Release]) -> None:
    wait_for_problem(releases["no-volume"], "cannot be scheduled", "PersistentVolumeClaim")
