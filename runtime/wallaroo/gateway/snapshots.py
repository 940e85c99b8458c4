"""Snapshots of the tables that the records of a log add up to."""

from __future__ import annotations

import json
from typing import Any


def pack_tables(tables: dict[str, Any]) -> bytes:
    """The payload of a snapshot."""
    return json.dumps(tables).encode()


def tables_in(payload: bytes) -> dict[str, Any]:
    """What `pack_tables` packed."""
    found: dict[str, Any] = json.loads(payload)
    return found
