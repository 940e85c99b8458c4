"""Names of Wallaroo's API that are not supported, each with its replacement."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from wallaroo.api.places import calling_place
from wallaroo.errors import ApplicationError

_CONNECTOR_SOURCE = (
    "send frames to the source's port with `wallaroo send`, wallaroo.client or any other program; "
    "a frame is a 4-byte big-endian length and the message (docs/migrating.md)"
)
_CONNECTOR_SINK = (
    "receive the sink's frames with `wallaroo receive` or any other program, or implement a "
    "wallaroo.OutputSink (docs/migrating.md)"
)

WALLAROO = {
    "StateBuilder": "pass the class of the state itself, or any object with build()",
}
"""Names in `wallaroo`."""
EXPERIMENTAL = {
    "SourceConnector": _CONNECTOR_SOURCE,
    "AtLeastOnceSourceConnector": _CONNECTOR_SOURCE,
    "MultiSourceConnector": _CONNECTOR_SOURCE,
    "BaseSource": "subclass wallaroo.MessageSource, and use it with wallaroo.SourceConfig "
    "(docs/connectors.md)",
    "BaseIter": "subclass wallaroo.MessageSource and yield messages in its read(position) "
    "(docs/connectors.md)",
    "FramedFileReader": "use wallaroo.FileSourceConfig (docs/connectors.md)",
    "ThrottledFileReader": "use wallaroo.FileSourceConfig, or `wallaroo send --rate` "
    "(docs/connectors.md)",
    "SinkConnector": _CONNECTOR_SINK,
    "connector_wire_messages": "the wire protocol of Wallaroo's connectors is not implemented; "
    "use wallaroo.client to send messages exactly once (docs/protocol.md)",
}
"""Names in `wallaroo.experimental` and `wallaroo.experimental.connectors`."""


def unsupported_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for *module* that reports *names* as not supported.

    It raises no AttributeError for them, because `from wallaroo import …` would hide the message.
    """

    def getattr_of_module(name: str) -> Any:
        if name in names:
            msg = f"{calling_place()}: {module}.{name} is not supported: {names[name]}"
            raise ApplicationError(msg)
        near = difflib.get_close_matches(name, vars(sys.modules[module]).get("__all__", ()), 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        msg = f"module {module!r} has no attribute {name!r}{meant}"
        raise AttributeError(msg)

    return getattr_of_module
