"""Where the gateway of a state directory has its internal API: a file there, for commands."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from wallaroo.errors import RuntimeFailure

_FILE = "door.json"


@dataclass(frozen=True)
class Endpoint:
    """How to get in at a gateway; for whoever may read its state directory anyway."""

    location: str
    """Where it listens: `grpc+unix:///PATH`, `grpc://HOST:PORT`, or `grpc+tls://HOST:PORT`."""
    token: str | None
    """What to show there."""

    def write(self, directory: Path) -> None:
        """Leave it in a state *directory*, for its owner alone."""
        fresh = directory / f"{_FILE}.new"
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(self), file)
        fresh.replace(directory / _FILE)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The door of the gateway that uses *directory*.

        Raises:
            RuntimeFailure: It has not said where it is.
        """
        try:
            return cls(**json.loads((directory / _FILE).read_text()))
        except (OSError, ValueError, TypeError) as error:
            msg = f"{directory} is in use, and {directory / _FILE} does not tell by whom: {error}"
            raise RuntimeFailure(msg) from error
