"""Prints the part of requirements.lock that an image needs: the runtime's packages, no others.

Usage: requirements.py PYPROJECT LOCK EXTRA…, where the extra `build-system` means what builds it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def main() -> None:
    """Print."""
    pyproject, lock, *extras = sys.argv[1:]
    told = tomllib.loads(Path(pyproject).read_text())
    wanted = told["project"]["dependencies"]
    if extras == ["build-system"]:
        wanted = [*told["build-system"]["requires"], "pip", "setuptools", "wheel"]
        extras = []
    for extra in extras:
        wanted = [*wanted, *told["project"]["optional-dependencies"][extra]]
    chosen = {canonical(requirement) for requirement in wanted}
    blocks = re.split(r"^(?=[A-Za-z0-9])", Path(lock).read_text(), flags=re.MULTILINE)[1:]
    needed_by = {canonical(block): parents(block) for block in blocks}
    if missing := chosen - needed_by.keys():
        sys.exit(f"{lock} lacks {', '.join(sorted(missing))}: call make lock")
    while more_chosen := {n for n, by in needed_by.items() if by & chosen} - chosen:
        chosen |= more_chosen
    sys.stdout.write("".join(block for block in blocks if canonical(block) in chosen))


def canonical(requirement: str) -> str:
    """The name that *requirement* begins with, in its one normal form."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def parents(block: str) -> set[str]:
    """Which packages pip-compile says need the one of *block*."""
    _, _, via = block.partition("# via")
    return {canonical(name) for name in re.findall(r"[\w.-]+(?= *\(|\s*$)", via, re.MULTILINE)}


if __name__ == "__main__":
    main()
