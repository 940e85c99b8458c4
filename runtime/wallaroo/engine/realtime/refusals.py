"""What the real-time engine does not do yet, and refuses at the start."""

from __future__ import annotations

import re
from typing import NoReturn

from wallaroo.errors import UsageError


def refuse(what: str) -> NoReturn:
    """Refuse *what*, which only the other engine does.

    Raises:
        UsageError: Always.
    """
    msg = f"the real-time engine does not support {what}; use --engine micro-batch"
    raise UsageError(msg)


def check_master(master: str) -> None:
    """Refuse another Spark than a local one.

    Raises:
        UsageError: It is another one.
    """
    if re.match(r"local(\[|$)", master) is None:
        refuse(f"Spark at {master!r}, only local Spark")
