"""`wallaroo warm-up`, which `tests/spark` runs, when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.cli.warm_up import _run
from wallaroo.errors import RuntimeFailure


@pytest.mark.parametrize(
    ("ending", "how"),
    [
        ("exit 3", "sh ended with exit code 3."),
        ("kill -9 $$", "sh was killed by SIGKILL."),
        ("exit 0", "sh ended with exit code 0 and has not made recorded."),
    ],
)
def test_what_failed_is_told_in_whole_lines_with_what_to_do(
    ending: str, how: str, tmp_path: Path
) -> None:
    long = "x" * 600
    command = ["sh", "-c", f"echo {long}; echo refused >&2; {ending}"]
    with pytest.raises(RuntimeFailure) as failure:
        _run(command, str(tmp_path), tmp_path / "recorded")
    first, *others = str(failure.value).splitlines()
    assert f"was not created, as {how} " in first
    assert "to try again, call `wallaroo warm-up`" in first
    assert others == [long, "refused"]
