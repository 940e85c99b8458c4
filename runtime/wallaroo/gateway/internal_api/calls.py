"""Calls of the internal API, as both ends know them: names, limits and the handshake.

Gateway and driver have the same version if one command starts both. An upgrade on a cluster
replaces them one after the other, and an older one may come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wallaroo import __version__

PATH = "/v1/"
"""How the path of a call begins, before the name of the action."""
TOKEN_HEADER, FENCING_HEADER = "authorization", "wallaroo-fencing-token"
CALL_BYTES = 256 * 1024
"""Bytes of the largest argument."""
FAILED, REFUSED, NO_ROOM, AWAY = "failed", "refused", "no room", "away"
"""Codes of errors: the call makes no sense, or what it asks for failed; its caller may not use the
gateway; the disk is full; the gateway cannot answer now. After the last two, a repeated call may
succeed."""
OTHER_WIRING = (
    "the gateway's application has other pipelines, sources or sinks than the driver's, or another "
    "version of wallaroo: run both from one image, with the same arguments"
)
"""Why a driver waits, as it does until an upgrade has replaced the gateway, too."""
API = 4
"""Version of the internal API: it increases with each change that an older end would misread."""


class VersionMismatch(LookupError):
    """The driver that requests a lease speaks another version of the internal API."""


def introduction() -> dict[str, Any]:
    """What a driver says about itself when it requests a lease."""
    return {"version": __version__, "api": API}


def check_version(driver: Mapping[str, Any]) -> None:
    """Refuse a *driver* that speaks another version of the internal API.

    Raises:
        VersionMismatch: It does.

    Example:
        >>> check_version({"version": "0.9", "api": 9})
        Traceback (most recent call last):
            ...
        wallaroo.gateway.internal_api.calls.VersionMismatch: the driver runs wallaroo 0.9 \
(internal API 9), the gateway wallaroo 0.1.0 (internal API 4): run both from one image
    """
    if driver.get("api") != API:
        version, api = driver.get("version", "(unknown)"), driver.get("api", "unknown")
        msg = (
            f"the driver runs wallaroo {version} (internal API {api}), "
            f"the gateway wallaroo {__version__} (internal API {API}): run both from one image"
        )
        raise VersionMismatch(msg)
