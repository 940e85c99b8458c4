"""Settings of a schema registry's client that may be secret: they come from files alone."""

from __future__ import annotations

import base64
import os
import ssl
from pathlib import Path

from wallaroo.codecs._http import ClientSettings, Unanswered

VARIABLE = "WALLAROO_SCHEMA_REGISTRY_SETTINGS"
"""Environment variable that names a file with settings for all registries."""
_NAMES = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
"""Settings, with the names that Confluent's clients have for them."""


def settings_of(file: str | os.PathLike[str] | None) -> ClientSettings:
    """Read the settings from the file of the environment variable and from *file*.

    Raises:
        Unanswered: A file cannot be read, or says something else; nothing of its contents is shown.
    """
    named = [os.environ.get(VARIABLE, ""), "" if file is None else os.fspath(file)]
    found: dict[str, str] = {}
    for name in filter(None, named):
        found |= _read(Path(name))
    return ClientSettings(_authorization(found), _context(found), tuple(filter(None, named)))


def _read(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        msg = f"the settings in {file} cannot be read: {getattr(error, 'strerror', 'no text')}"
        raise Unanswered(msg) from None
    found = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not line or line.startswith("#"):
            continue
        if not equals or name not in _NAMES:
            msg = f"{file}:{number} is not a setting; expected name=value with {', '.join(_NAMES)}"
            raise Unanswered(msg)
        found[name] = value
    return found


def _authorization(found: dict[str, str]) -> str | None:
    if user := found.get("basic.auth.user.info"):
        return f"Basic {base64.b64encode(user.encode()).decode()}"
    token = found.get("bearer.auth.token")
    return f"Bearer {token}" if token else None


def _context(found: dict[str, str]) -> ssl.SSLContext:
    """Trusts the authorities of the settings, or else those of the system."""
    try:
        context = ssl.create_default_context(cafile=found.get("ssl.ca.location"))
        if (certificate := found.get("ssl.certificate.location")) is not None:
            key, password = found.get("ssl.key.location"), found.get("ssl.key.password", "")
            context.load_cert_chain(certificate, key, password=password)
    except (OSError, ssl.SSLError) as error:
        msg = f"the files of ssl.… in the settings cannot be used: {error}"
        raise Unanswered(msg) from None
    return context
