"""What happened to the messages of a run, for a checker that others have written."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

_CHECKER = Path(__file__).with_name("porcupine")


def is_there() -> bool:
    """Whether this machine can build the checker, which needs Go 1.21."""
    if shutil.which("go") is None:
        return False
    output = subprocess.run(["go", "version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"go1\.(\d+)", output)
    return version is not None and int(version[1]) >= 21


def confirm(history: Path) -> tuple[bool, str]:
    """Let Porcupine, which checks for linearizability, read a *history* that a ledger has kept.

    Returns:
        Whether the messages of each key can have taken effect one after the other, each between
        the moment when it was sent and the moment when its output came; and what it says.
    """
    with history.open() as lines:
        checked = subprocess.run(
            ["go", "run", "."],
            cwd=_CHECKER,
            stdin=lines,
            capture_output=True,  # apart, as Go tells what it downloads
            text=True,
            check=False,
        )
    return checked.returncode == 0, (checked.stdout or checked.stderr).strip()
