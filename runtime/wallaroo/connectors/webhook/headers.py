"""The headers of a webhook's requests, of which some are secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wallaroo.connectors.variables import VARIABLE
from wallaroo.connectors.webhook.resolve import WebhookSink, problem_of_header
from wallaroo.errors import RuntimeFailure

_LEAST_SECRET = 4
"""Letters of a secret that are worth hiding: shorter ones occur by chance."""


@dataclass(frozen=True)
class Prepared:
    """What all requests have in common."""

    target: str
    """Path and query."""
    headers: Mapping[str, str]
    secrets: tuple[str, ...]
    """Values that are not to be shown, the longest first."""

    def redacted(self, text: str) -> str:
        """*text* without secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text


def prepared(sink: WebhookSink, environment: Mapping[str, str] | None = None) -> Prepared:
    """Read the file of headers, and put variables in.

    Args:
        sink: The sink.
        environment: Environment variables; None for those of the process.

    Raises:
        RuntimeFailure: A file cannot be read, a variable is not set, or a header cannot be sent.
    """
    variables = os.environ if environment is None else environment
    secrets: list[str] = []

    def put_in(text: str, what: str) -> str:
        for name in VARIABLE.findall(text):
            if name not in variables:
                msg = f"sink {sink.name!r}: {what} needs the environment variable {name}: set it"
                raise RuntimeFailure(msg)
            secrets.append(variables[name])
        return VARIABLE.sub(lambda found: variables[found[1]], text)

    rest = sink.url.partition("#")[0].partition("://")[2]
    slash = min((rest + end).index(end) for end in "/?")
    target = put_in(rest[slash:], "url")
    target = target if target.startswith("/") else f"/{target}"
    if not (target.isascii() and target.isprintable()) or " " in target:
        msg = f"sink {sink.name!r}: url has characters that an address cannot have"
        raise RuntimeFailure(msg)
    headers = {name: put_in(value, f"header {name}") for name, value in sink.headers.items()}
    if sink.headers_file is not None:
        found = _read(sink.headers_file)
        secrets += found.values()
        secrets += [value.partition(" ")[2] for value in found.values()]  # after `Bearer`
        headers |= found
    for name, value in headers.items():
        if (problem := problem_of_header(name, value)) is not None:
            msg = f"sink {sink.name!r}: {problem}"
            raise RuntimeFailure(msg)
    shown = sorted({one for one in secrets if len(one) >= _LEAST_SECRET}, key=len, reverse=True)
    return Prepared(target, headers, tuple(shown))


def _read(file: Path) -> dict[str, str]:
    try:
        text = file.read_text("ascii")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not ASCII"
        msg = f"{file}, which has headers of a webhook, cannot be read: {reason}"
        raise RuntimeFailure(msg) from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if not colon:
            msg = f"{file}:{number} is not a header; write Name: value"
            raise RuntimeFailure(msg)
        found[name.strip()] = value.strip()
    return found
