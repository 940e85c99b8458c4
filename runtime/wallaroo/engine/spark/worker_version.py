"""A check that a worker runs the versions of wallaroo and Python that its driver runs.

On one machine they are one installation. Executors of a cluster have an image of their own, which
may be older or newer: what the driver and its workers tell each other would then be misread.
"""

from __future__ import annotations

import sys

from wallaroo import __version__
from wallaroo.errors import OtherVersion


def version_here() -> str:
    """The versions of the runtime and of Python in this process, as `check_version` compares them.

    Example:
        >>> version_here().startswith("wallaroo ")
        True
    """
    return f"wallaroo {__version__} on Python {sys.version_info.major}.{sys.version_info.minor}"


def check_version(driver: str | None) -> None:
    """Refuse to work for a driver of another version.

    Args:
        driver: What `version_here` is in the driver; None if the driver does not say.

    Raises:
        OtherVersion: It is another one.

    Example:
        >>> check_version(version_here())
    """
    here = version_here()
    if driver != here:
        msg = (
            f"the driver runs {driver or 'an older version of wallaroo'}, and a worker {here}: "
            "give driver and executors the same image"
        )
        raise OtherVersion(msg)
