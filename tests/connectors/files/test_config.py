"""Paths of files in configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

import wallaroo


def test_a_relative_path_belongs_to_the_directory_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = wallaroo.FileSourceConfig("in.txt", bytes.decode, "lines")
    sink = wallaroo.FileSinkConfig(Path("out.txt"), wallaroo.encoder(str), framing="lines")
    monkeypatch.chdir("/")
    assert (source.path, sink.path) == (tmp_path / "in.txt", tmp_path / "out.txt")
