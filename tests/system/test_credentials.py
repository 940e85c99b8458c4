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


SHOWN = Path("/proc/self/environ")
TAKING = """
import os
from wallaroo.system import credentials

credentials.hide_token()
hidden = open("/proc/self/environ", "rb").read()
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    taken = credentials.take_token()
    shown = open("/proc/self/environ", "rb").read(), open(f"/proc/{os.getppid()}/environ").read()
    print([taken, os.environ.get(credentials.TOKEN_VARIABLE), hidden, *shown])
"""


@pytest.mark.skipif(not SHOWN.exists(), reason="only Linux shows the environment of processes")
@pytest.mark.parametrize("variable", [TOKEN_VARIABLE, TOKEN_FILE_VARIABLE])
def test_a_token_that_is_taken_is_not_shown_as_what_the_process_started_with(
    variable: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    value = TOKEN if variable == TOKEN_VARIABLE else str(tmp_path / "token")
    environment = {**os.environ, variable: value, "WALLAROO_OTHER": "is kept"}
    done = subprocess.run(
        [sys.executable, "-c", TAKING], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"[{TOKEN!r}, None, ")
    assert (done.stdout.count(value), done.stdout.count("is kept")) == (
        int(variable == TOKEN_VARIABLE),
        3,
    )


def test_authorities_that_are_none_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate\n")
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(file))
    with pytest.raises(UsageError, match=r"the authorities of the gateway in .*ca\.pem cannot be"):
        trusting_here()
