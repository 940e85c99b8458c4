"""A file in the state directory with the internal API's location, for commands."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from wallaroo.errors import RuntimeFailure

_FILE = "endpoint.json"


@dataclass(frozen=True)
class Endpoint:
    """How to reach a gateway, for processes that may read its state directory."""

    location: str
    """Where it listens, see `location`."""
    token: str | None
    """The token to send."""

    def write(self, directory: Path) -> None:
        """Write it to a state *directory*, readable for its owner only."""
        fresh = directory / f"{_FILE}.new"
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file)
        fresh.replace(directory / _FILE)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The endpoint of the gateway that uses *directory*.

        Raises:
            RuntimeFailure: There is none.
        """
        try:
            return cls(**json.loads((directory / _FILE).read_text()))
        except (OSError, ValueError, TypeError) as error:
            msg = f"{directory} is in use, but {directory / _FILE} cannot be read: {error}"
            raise RuntimeFailure(msg) from error
