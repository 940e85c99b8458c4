"""Files of the project that are no Python modules: examples, charts, the image's recipe.

A checkout has them at its top. A wheel has copies of them inside the package, so that `wallaroo
demo`, `wallaroo build` and `wallaroo chart` work wherever it is installed.
"""

from __future__ import annotations

from pathlib import Path

from wallaroo.errors import RuntimeFailure

PACKAGE = Path(__file__).resolve().parents[1]
"""The directory of this package."""
SHIPPED = "shipped"
"""Directory of the copies, in the package."""


def shipped_file(name: str) -> Path:
    """The file or directory *name* of the project, such as `Dockerfile` or `apps/word_count`.

    Raises:
        RuntimeFailure: This installation does not have it.

    Example:
        >>> shipped_file("apps/word_count/application.py").name
        'application.py'
    """
    checkout = PACKAGE.parents[1]
    for root in (PACKAGE / SHIPPED, *([checkout] if _is_checkout(checkout) else [])):
        if (root / name).exists():
            return root / name
    msg = (
        f"this installation of wallaroo lacks {name}: install the project's wheel or its source "
        "distribution, or use a checkout"
    )
    raise RuntimeFailure(msg)


def _is_checkout(directory: Path) -> bool:
    return PACKAGE.parent == directory / "runtime" and (directory / "pyproject.toml").is_file()
