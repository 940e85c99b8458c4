"""What Kubernetes tells a process of the pod that it runs in."""

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
        """The pod as its environment tells it: `POD_NAME`, `POD_NAMESPACE`, `POD_IP`.

        Raises:
            UsageError: One of them is not set.
        """
        return cls(*(value_of(name) for name in ("POD_NAME", "POD_NAMESPACE", "POD_IP")))


def value_of(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """The environment variable *name*.

    Raises:
        UsageError: It is not set.
    """
    value = environment.get(name)
    if not value:
        msg = f"the environment variable {name} is not set; Kubernetes is to tell it"
        raise UsageError(msg)
    return value
