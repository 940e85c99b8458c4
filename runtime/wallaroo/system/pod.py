"""The pod in which a process runs, according to its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from wallaroo.errors import UsageError


@dataclass(frozen=True)
class Pod:
    """The pod that this process runs in."""

    name: str
    namespace: str
    ip: str

    @classmethod
    def here(cls) -> Pod:
        """Read the pod from the environment: `POD_NAME`, `POD_NAMESPACE`, `POD_IP`.

        Raises:
            UsageError: One of the variables is not set.
        """
        return cls(*(value_of(name) for name in ("POD_NAME", "POD_NAMESPACE", "POD_IP")))


def value_of(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the value of the environment variable *name*.

    Raises:
        UsageError: It is not set.
    """
    value = environment.get(name)
    if not value:
        msg = f"the environment variable {name} is not set; set it in the pod's specification"
        raise UsageError(msg)
    return value
