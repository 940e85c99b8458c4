"""Topics of Kafka, and how to reach them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from wallaroo.api.places import Place

_LEGAL = re.compile(r"[\w.-]{1,249}", re.ASCII)
LEGAL_NAME = "at most 249 letters, digits, dots, underscores and hyphens"
"""What a name of a topic is, for messages."""
_HARMLESS = re.compile(
    r"security\.protocol|sasl\.(mechanisms?|username)|ssl\.\w+\.location"
    r"|(client|compression)\.\w+|.+\.(ms|bytes|kbytes)"
)
_SECRETS = ("password", "secret", "key.pem", "oauthbearer.config", "credential")
"""Parts of the names of options that are secrets."""


def is_legal(name: str) -> bool:
    """Whether *name* can be that of a topic.

    Example:
        >>> is_legal("orders.v2"), is_legal("^orders"), is_legal("..")
        (True, False, False)
    """
    return _LEGAL.fullmatch(name) is not None and name not in {".", ".."}


def is_internal(name: str) -> bool:
    """Whether the brokers keep their own records in the topic *name*, and let nobody write to it.

    Example:
        >>> is_internal("__consumer_offsets"), is_internal("__own")
        (True, False)
    """
    return name in {"__consumer_offsets", "__transaction_state", "__share_group_state"}


def is_harmless(option: str) -> bool:
    """Whether the value of librdkafka's *option* may be shown though it comes from a file.

    Example:
        >>> is_harmless("ssl.ca.location"), is_harmless("sasl.oauthbearer.config")
        (True, False)
    """
    return _HARMLESS.fullmatch(option) is not None


def is_secret(option: str) -> bool:
    """Whether the value of librdkafka's *option* must not be shown."""
    return any(part in option for part in _SECRETS)


TokenFunction = Callable[[], tuple[str, datetime | float]]
"""Returns a token for OAUTHBEARER and when it expires: a `datetime` with a time zone, or seconds
since the Unix epoch."""


@dataclass(frozen=True)
class TopicSettings:
    """How a topic is created that does not exist: `create=` of a source or sink.

    Example:
        >>> TopicSettings(partitions=6, config={"retention.ms": 86_400_000}).partitions
        6
    """

    partitions: int | None = None
    """Number of partitions; None for the brokers' default."""
    replication: int | None = None
    """Copies of each partition; None for the brokers' default."""
    config: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Configuration of the topic by name, as Kafka documents it, such as `cleanup.policy`."""

    @property
    def texts(self) -> dict[str, str]:
        """The configuration as brokers take it."""
        return {name: _as_text(value) for name, value in self.config.items()}


def _as_text(value: str | int | float | bool) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Topic:
    """A topic, or several that a source reads as one, and how to reach them.

    Example:
        >>> str(Topic("orders", "a:1")), str(Topic("orders", "a:1", others=("returns",)))
        ('topic orders at a:1', 'topics orders, returns at a:1')
        >>> orders = Topic("orders-.*", "a:1", pattern=re.compile("orders-.*"))
        >>> str(orders), str(orders.one("orders-eu"))
        ('topics that match orders-.* at a:1', 'topic orders-eu at a:1')
        >>> orders.includes("orders-eu"), orders.includes("all-orders-eu")
        (True, False)
    """

    name: str
    """Its name; that of the first, or the text of `pattern`, if there can be several."""
    brokers: str
    """`HOST:PORT`, separated by commas."""
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict, hash=False)
    """Options of librdkafka."""
    settings_file: Path | None = None
    """File with further ones."""
    place: Place | None = field(default=None, compare=False)
    """Where it is configured."""
    create: TopicSettings | None = field(default=None, hash=False)
    """How it is created if it does not exist; None to wait until it does."""
    oauth: TokenFunction | None = None
    """Returns tokens for OAUTHBEARER."""
    others: tuple[str, ...] = ()
    """Names of further topics."""
    pattern: re.Pattern[str] | None = None
    """What names match, if none is given; those of internal topics never do."""

    def __str__(self) -> str:
        return f"{self.title} at {self.brokers}"

    @property
    def title(self) -> str:
        """What it is called in messages, without the brokers."""
        if self.pattern is not None:
            return f"topics that match {self.name}"
        return f"topics {', '.join(self.names)}" if self.others else f"topic {self.name}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names that were given."""
        return () if self.pattern is not None else (self.name, *self.others)

    def includes(self, name: str) -> bool:
        """Whether the topic called *name* is one of them."""
        if self.pattern is None:
            return name in self.names
        return not name.startswith("__") and self.pattern.fullmatch(name) is not None

    def shares_brokers(self, other: Topic) -> bool:
        """Whether an address of a broker is also given for *other*."""
        return not {*self.brokers.split(",")}.isdisjoint(other.brokers.split(","))

    def one(self, name: str) -> Topic:
        """The one called *name* alone."""
        return replace(self, name=name, others=(), pattern=None)
