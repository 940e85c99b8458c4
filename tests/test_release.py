"""What `make release` makes, but for the images."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from scripts.release import CHARTS, archive_of, packages

from tests.charts.harness import Object, SdkHelm
from tests.helpers import ROOT

TIME = 1_700_000_000


def names(objects: list[Object]) -> list[tuple[str, str]]:
    return [(o["kind"], o["metadata"]["name"]) for o in objects]


@pytest.mark.parametrize("chart", CHARTS)
def test_a_packed_chart_has_no_links_and_installs(chart: str, tmp_path: Path) -> None:
    packed = archive_of(ROOT / "helm" / chart, chart, tmp_path, TIME)
    with tarfile.open(packed) as archive:
        assert all(member.isreg() for member in archive.getmembers())
        archive.extractall(tmp_path / "unpacked", filter="data")
    pytest.importorskip("helm_python")
    helm = SdkHelm()
    unpacked = names(helm.objects(tmp_path / "unpacked" / chart))
    assert unpacked == names(helm.objects(chart))


def test_the_same_commit_makes_the_same_files(tmp_path: Path) -> None:
    made: list[dict[str, bytes]] = []
    for turn in ("first", "second"):
        destination = tmp_path / turn
        destination.mkdir()
        packages(destination, TIME)
        archive_of(ROOT / "helm" / "word-count", "word-count", destination, TIME)
        made.append({path.name: path.read_bytes() for path in destination.iterdir()})
    assert len(made[0]) == 3
    assert made[0] == made[1]
