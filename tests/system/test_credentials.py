"""The token of the gateway in the environment of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wallaroo.errors import UsageError
from wallaroo.system.credentials import (
    AUTHORITIES_VARIABLE,
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
    take_token,
    trusting_here,
)

TOKEN = "a token that is long enough"


@pytest.mark.parametrize("in_file", [False, True])
def test_a_token_that_is_taken_is_not_seen_by_user_code_and_its_processes(
    in_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_FILE_VARIABLE, raising=False)
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    if in_file:
        (tmp_path / "token").write_text(f"{TOKEN}\n")
        monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "token"))
    assert take_token() == TOKEN
    assert not [name for name in os.environ if "GATEWAY_TOKEN" in name]
    seen = subprocess.run(
        [sys.executable, "-c", "import os; print(dict(os.environ))"],
        capture_output=True,
        check=True,
    )
    assert TOKEN.encode() not in seen.stdout
    assert take_token() is None


def test_authorities_that_are_none_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate\n")
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(file))
    with pytest.raises(UsageError, match=r"the authorities of the gateway in .*ca\.pem cannot be"):
        trusting_here()
