"""A topic of Kafka, and how to reach it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wallaroo.api.places import Place

_SECRETS = ("password", "secret", "key.pem", "oauthbearer.config", "credential")
"""Parts of the names of options that are secrets."""


def is_secret(option: str) -> bool:
    """Whether the value of librdkafka's *option* must not be shown."""
    return any(part in option for part in _SECRETS)


@dataclass(frozen=True)
class Topic:
    """A topic, and how to reach it."""

    name: str
    brokers: str
    """`HOST:PORT`, separated by commas."""
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict, hash=False)
    """Options of librdkafka."""
    settings_file: Path | None = None
    """File with further ones."""
    place: Place | None = field(default=None, compare=False)
    """Where it is configured."""

    def __str__(self) -> str:
        return f"topic {self.name} at {self.brokers}"
