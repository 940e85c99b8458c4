"""Names and limits of the internal API's calls, shared by both ends."""

from __future__ import annotations

PATH = "/v1/"
"""How the path of a call begins, before the name of the action."""
TOKEN_HEADER, FENCING_HEADER = "authorization", "wallaroo-fencing-token"
CALL_BYTES = 256 * 1024
"""Bytes of the largest argument."""
FAILED, REFUSED, NO_ROOM, AWAY = "failed", "refused", "no room", "away"
"""Codes of errors: the call makes no sense, or what it asks for failed; its caller may not use the
gateway; the disk is full; the gateway cannot answer now. After the last two, a repeated call may
succeed."""
