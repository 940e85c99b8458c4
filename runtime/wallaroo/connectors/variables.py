"""Environment variables in settings, whose values are secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from wallaroo.errors import RuntimeFailure

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""What stands for an environment variable."""
_LEAST_SECRET = 4
"""Letters of a secret that are worth hiding: shorter ones occur by chance."""


class Variables:
    """Puts environment variables into settings, and hides them and other secrets in messages.

    Args:
        sink: Name of the sink that has the settings.
        environment: Environment variables; None for those of the process.

    Example:
        >>> variables = Variables("orders", {"KEY": "tell-nobody"})
        >>> variables.put_in("Bearer ${KEY}", "header Authorization")
        'Bearer tell-nobody'
        >>> variables.redacted("refused: tell-nobody")
        'refused: …'
    """

    def __init__(self, sink: str, environment: Mapping[str, str] | None) -> None:
        self._sink = sink
        self._environment = os.environ if environment is None else environment
        self._secrets: set[str] = set()

    def put_in(self, text: str, what: str) -> str:
        """*text*, which is *what* of the sink, with the values of variables.

        Raises:
            RuntimeFailure: One is not set.
        """
        for name in VARIABLE.findall(text):
            if name not in self._environment:
                msg = f"sink {self._sink!r}: {what} needs the environment variable {name}: set it"
                raise RuntimeFailure(msg)
            self.hide(self._environment[name])
        return VARIABLE.sub(lambda found: self._environment[found[1]], text)

    def hide(self, *secrets: str) -> None:
        """Hide *secrets*, too."""
        self._secrets.update(one for one in secrets if len(one) >= _LEAST_SECRET)

    def redacted(self, text: str) -> str:
        """*text* without secrets."""
        for secret in sorted(self._secrets, key=len, reverse=True):  # one may contain another
            text = text.replace(secret, "…")
        return text
