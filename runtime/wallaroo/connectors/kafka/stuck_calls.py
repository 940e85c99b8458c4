"""Calls of librdkafka that may never return, in spite of a time limit that they were given.

They do so if the coordinator of a group was restarted since the last call for it: the client's
cache still has the closed connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_STUCK_S = 15.0
"""Seconds after which a call that was given a limit of a second will not return."""


class StuckCall(Exception):
    """A call does not return."""


def returned(call: Callable[[], None], name: str) -> None:
    """Make *call* in a thread of this *name*, and wait until it has returned.

    Raises:
        StuckCall: It does not.
        Exception: What it raises.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join(_STUCK_S)
    if thread.is_alive():
        raise StuckCall
    if raised:
        raise raised[0]
