"""A slow disk and a wrong clock for all processes of a machine, by a library loaded first."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("shim.c")
_NUMBERS = struct.Struct("=qq")
_S = 10**9


def lacking() -> str | None:
    """What this machine lacks for it; None if nothing."""
    return None if shutil.which("cc") else "a C compiler"


def compiled(directory: Path) -> Path | None:
    """The library, made in *directory*; None without a compiler."""
    if lacking() is not None:
        return None
    library = directory / "shim.so"
    command = ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([*command, str(_SOURCE), "-ldl", "-lpthread"], check=True)
    return library


class Machine:
    """A machine whose clock and disk can be told to be wrong and slow.

    Args:
        file: Tells its processes; created.
        library: The library; None for a machine that cannot be told.
    """

    def __init__(self, file: Path, library: Path | None) -> None:
        self.environment: dict[str, str] = {}
        """Variables for its processes."""
        file.write_bytes(bytes(_NUMBERS.size))
        with file.open("r+b") as opened:
            self._told = mmap.mmap(opened.fileno(), _NUMBERS.size)
        if library is not None:
            self.environment = {"LD_PRELOAD": str(library), "WALLAROO_SHIM": str(file)}

    def tell(self, ahead_s: float = 0.0, sync_s: float = 0.0) -> None:
        """Set its wall clock ahead, and let each sync of a file take longer."""
        _NUMBERS.pack_into(self._told, 0, int(ahead_s * _S), int(sync_s * _S))

    def close(self) -> None:
        """Give its file back."""
        self._told.close()
