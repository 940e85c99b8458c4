"""User code in a command's own process: what it prints and logs does not mix with the command's."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from wallaroo.dataflow.user_logs import captured_logs
from wallaroo.observability import log_channel
from wallaroo.observability.logs import kept_apart, relay


@contextlib.contextmanager
def hearing(application: str | None = None) -> Iterator[None]:
    """Inside the block, turn what user code prints and logs in the driver into events.

    Args:
        application: Name of the application; None while it is not known.
    """
    with (
        kept_apart(),
        captured_logs(relay, process="driver") as logs,
        log_channel.taken_over(),
    ):
        logs.application = application
        yield


@contextlib.contextmanager
def product() -> Iterator[TextIO]:
    """What stands for stdout in a command that writes what it makes there.

    Inside the block all else that is printed goes to stderr.
    """
    before = sys.stdout
    before.flush()
    with contextlib.ExitStack() as stack:
        stream: TextIO = before
        with contextlib.suppress(OSError, ValueError):  # it is something in memory
            descriptor = os.dup(before.fileno())
            opened = os.fdopen(descriptor, "w", encoding=before.encoding, errors=before.errors)
            stream = stack.enter_context(opened)
            if before.fileno() == 1:
                stack.enter_context(log_channel.taken_over())
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield stream
        stream.flush()
