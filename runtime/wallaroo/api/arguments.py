"""The arguments of the application that is loaded, for parsers that get none."""

from __future__ import annotations

ARGS: tuple[str, ...] = ()
"""As a worker of a Wallaroo cluster has them: its name comes first."""
