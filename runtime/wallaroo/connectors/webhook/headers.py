"""The headers of a webhook's requests, of which some are secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wallaroo.connectors.variables import Variables
from wallaroo.connectors.webhook.resolve import WebhookSink, problem_of_header
from wallaroo.errors import RuntimeFailure


@dataclass(frozen=True)
class Prepared:
    """What all requests have in common."""

    target: str
    """Path and query."""
    headers: Mapping[str, str]
    variables: Variables
    """What is not to be shown."""

    def redacted(self, text: str) -> str:
        """*text* without secrets."""
        return self.variables.redacted(text)


def prepared(sink: WebhookSink, environment: Mapping[str, str] | None = None) -> Prepared:
    """Read the file of headers, and put variables in.

    Args:
        sink: The sink.
        environment: Environment variables; None for those of the process.

    Raises:
        RuntimeFailure: A file cannot be read, a variable is not set, or a header cannot be sent.
    """
    variables = Variables(sink.name, environment)
    rest = sink.url.partition("#")[0].partition("://")[2]
    slash = min((rest + end).index(end) for end in "/?")
    target = variables.put_in(rest[slash:], "url")
    target = target if target.startswith("/") else f"/{target}"
    if not (target.isascii() and target.isprintable()) or " " in target:
        msg = f"sink {sink.name!r}: url has characters that an address cannot have"
        raise RuntimeFailure(msg)
    headers = {
        name: variables.put_in(value, f"header {name}") for name, value in sink.headers.items()
    }
    if sink.headers_file is not None:
        found = _read(sink.headers_file)
        variables.hide(*found.values())
        variables.hide(*(value.partition(" ")[2] for value in found.values()))  # after `Bearer`
        headers |= found
    for name, value in headers.items():
        if (problem := problem_of_header(name, value)) is not None:
            msg = f"sink {sink.name!r}: {problem}"
            raise RuntimeFailure(msg)
    return Prepared(target, headers, variables)


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
