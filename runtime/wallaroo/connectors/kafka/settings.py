"""Settings for librdkafka: from the application, and from files that may hold secrets.

Secrets are never logged: what librdkafka tells of a setting that it does not accept is stripped of
the values that came from files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wallaroo.connectors.kafka.topic import Topic, is_harmless, is_secret
from wallaroo.errors import RuntimeFailure, reason_of

VARIABLE = "WALLAROO_KAFKA_SETTINGS"
"""Environment variable that names a file with settings for all topics, or several files with colons
between them; later ones take precedence."""
_ALIASES = {"compression.type": "compression.codec"}
"""Names of options, and those by which librdkafka calls them."""
_OWN = frozenset(
    {
        *("bootstrap.servers", "metadata.broker.list", "group.id", "group.protocol"),
        *("enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset"),
        *("isolation.level", "enable.partition.eof", "transactional.id", "enable.idempotence"),
        *("delivery.report.only.error", "allow.auto.create.topics", "max.poll.interval.ms"),
        *("acks", "request.required.acks"),
    }
)
"""Options on which exactly-once processing depends, so they cannot be set."""


@dataclass(frozen=True)
class ClientSettings:
    """Settings of one topic's clients."""

    options: Mapping[str, Any]
    """Options of librdkafka by name, without those that are set here."""
    secrets: tuple[str, ...]
    """Values that are not to be shown."""
    files: tuple[Path, ...]
    """Files that they came from."""
    in_code: bool = False
    """Whether the application has given some itself."""

    def redacted(self, text: str) -> str:
        """*text* without secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text

    def completed(self, reason: str, in_code: Mapping[str, Any]) -> str:
        """What librdkafka says of a setting, with name and value as the user has written them.

        Args:
            reason: What it says.
            in_code: The options that the application has given, none of which is secret.
        """
        for alias, name in _ALIASES.items():
            if alias in self.options and name not in self.options:
                reason = reason.replace(f'"{name}"', f'"{alias}"')
        for name, value in in_code.items():
            if reason == f'Invalid value for configuration property "{name}"':
                reason += f": {value!r}"
        return self.redacted(reason)

    @property
    def origin(self) -> str:
        """Where the user has written them, for messages."""
        files = [str(file) for file in self.files]
        if not files and not self.in_code:
            return f"settings_file of the configuration, or the file that {VARIABLE} names"
        return " or ".join(["settings of the configuration"] * self.in_code + files)


def settings_of(topic: Topic, environment: Mapping[str, str] | None = None) -> ClientSettings:
    """The settings of the clients for *topic*.

    Args:
        topic: The topic.
        environment: Environment variables; None for those of the process.

    Raises:
        RuntimeFailure: A file cannot be read, or a setting cannot be set; the message names it.
    """
    options: dict[str, Any] = {}
    secrets: list[str] = []
    named = (os.environ if environment is None else environment).get(VARIABLE, "")
    files = [Path(name) for name in named.split(os.pathsep) if name]
    files += [] if topic.settings_file is None else [topic.settings_file]
    for file in files:
        for number, name, value in _lines(file):
            _check(name, f"{file}:{number}")
            options[name] = value
            shown = is_harmless(name) or (len(value) <= len("false") and not is_secret(name))
            secrets += [] if shown else [value]
    for name in topic.settings:
        _check(name, f"the configuration of {topic}")
    options |= topic.settings
    secrets.sort(key=len, reverse=True)  # one may contain another
    found = ClientSettings(options, tuple(secrets), tuple(files), bool(topic.settings))
    _check_files(topic, found)
    return found


def _lines(file: Path) -> list[tuple[int, str, str]]:
    """The settings in *file*, with the numbers of their lines."""
    try:
        text = file.read_text()
    except (OSError, ValueError) as error:
        msg = f"{file}, which has settings for Kafka, cannot be read: {reason_of(error)}"
        raise RuntimeFailure(msg) from None
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (setting := line.strip()) or setting.startswith("#"):
            continue
        name, equals, value = setting.partition("=")
        if not equals:
            msg = f"{file}:{number} is not a setting; write name=value"
            raise RuntimeFailure(msg)
        found.append((number, name.strip(), value.strip()))
    return found


def _check_files(topic: Topic, settings: ClientSettings) -> None:
    """Refuse names of files that cannot be read, of which librdkafka only tells OpenSSL's codes."""
    for name, value in settings.options.items():
        if not name.endswith(".location") or value == "probe":
            continue
        file = Path(str(value))
        try:
            if not file.is_dir():
                file.open("rb").close()
        except OSError as error:
            msg = (
                f"{topic}: {name} is {file}, which cannot be read: {error.strerror}; the settings "
                f"are in {settings.origin}"
            )
            raise RuntimeFailure(msg) from None


def _check(name: str, where: str) -> None:
    if name in _OWN:
        msg = f"{where}: {name} cannot be set, because exactly-once processing depends on it"
        raise RuntimeFailure(msg)
