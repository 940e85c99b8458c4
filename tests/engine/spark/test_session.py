"""Settings of a session of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.engine.spark.session import _sockets_in


@pytest.mark.parametrize(
    ("name", "master", "is_private"),
    [
        ("short", "local[2]", True),
        ("short", "spark://host:7077", False),
        ("long" * 30, "local[2]", False),  # which would not fit in an address
    ],
)
def test_sockets_are_in_the_private_directory_if_they_fit_there(
    name: str, master: str, is_private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", lambda *_arguments, **_options: None)
    directory = Path("/private", name)
    (chosen,) = _sockets_in(directory, master).values()
    assert chosen == (str(directory) if is_private else "/tmp")
