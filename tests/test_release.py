"""What `make release` makes; images by a stand-in for an engine."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from scripts.release import CHARTS, archive_of, image_of, packages, release

from tests.charts.harness import Object, SdkHelm
from tests.helpers import ROOT, unpack

TIME = 1_700_000_000


def names(objects: list[Object]) -> list[tuple[str, str]]:
    return [(o["kind"], o["metadata"]["name"]) for o in objects]


@pytest.mark.parametrize("chart", CHARTS)
def test_a_packed_chart_has_no_links_and_installs(chart: str, tmp_path: Path) -> None:
    packed = archive_of(ROOT / "helm" / chart, chart, tmp_path, TIME)
    with tarfile.open(packed) as archive:
        assert all(member.isreg() for member in archive.getmembers())
    unpack(packed, tmp_path / "unpacked")
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


PODMAN = """#!/bin/sh
case "$1" in
    save) for option; do case $option in --output=*) echo image >"${option#*=}" ;; esac; done ;;
    run) grep -q "def inventory" && echo '[{"kind": "pypi", "name": "numpy", "version": "2.4"}]' ;;
esac
"""
"""Does what a release asks of it, without an image."""


def test_an_image_is_an_archive_with_its_bill_of_materials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "podman").write_text(PODMAN)
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    archive, bill = image_of("word-count", tmp_path, "podman", ())
    assert (archive.name, archive.read_text()) == ("word-count-0.1.0.oci.tar", "image\n")
    assert bill.name == "word-count-0.1.0.cdx.json"
    (part,) = json.loads(bill.read_text())["components"]
    assert part["purl"] == "pkg:pypi/numpy@2.4"


def test_without_an_engine_that_works_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\necho no daemon >&2; exit 1\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(release, ["--destination", str(tmp_path / "dist")])
    assert str(done.exception) == (
        "no image can be built: docker does not respond (no daemon); start one of them; or pass "
        "--no-images"
    )
    assert not (tmp_path / "dist").exists()
