"""Policies for messages that cannot be processed, and outputs that are refused: `--on-error`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from wallaroo.errors import UsageError
from wallaroo.model.application import Application

OUTPUTS = ""
"""Stands for outputs among the names of sources: a receiver does not know where they come from."""


class Policy(StrEnum):
    """What happens to messages of a source that fail, and to outputs that are refused."""

    SET_ASIDE = "set-aside"
    """It is kept as a dead letter."""
    STOP = "stop"
    """The application stops, before the chunk of the message is published."""
    DROP = "drop"
    """It is counted."""


def policies(texts: Sequence[str], application: Application) -> dict[str, Policy]:
    """What `--on-error` asks for, by source; without one also for `OUTPUTS`.

    Raises:
        UsageError: A policy or source does not exist.
    """
    names = [source.name for source in application.sources]
    chosen: dict[str, Policy] = {}
    for text in texts:
        source, equals, policy = text.rpartition("=")
        if policy not in {*Policy}:
            known = ", ".join(Policy)
            msg = f"--on-error {text!r}: {policy!r} is not one of {known}"
            raise UsageError(msg)
        if equals and source not in names:
            known = ", ".join(names)
            msg = f"--on-error {text!r}: there is no source {source!r}; the sources are: {known}"
            raise UsageError(msg)
        for name in [source] if equals else (*names, OUTPUTS):
            chosen[name] = Policy(policy)
    return chosen
