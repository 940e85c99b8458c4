"""Ends processes together with their parent, whatever they are doing."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import threading

_PR_SET_PDEATHSIG = 1
_GRACE_S = 15.0
"""Seconds that a process has to shut down cleanly after its parent has ended."""


def die_with_parent() -> None:
    """Kill this forked process when the thread that forked it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def die_with_starter() -> None:
    """End this process when its parent process ends, whichever thread started it."""
    parent = os.getppid()
    try:
        started_by = os.pidfd_open(parent)
    except ProcessLookupError:
        os._exit(1)
    except OSError:  # not supported in a sandbox
        return
    if os.getppid() != parent:
        os._exit(1)

    def watch() -> None:
        select.select([started_by], [], [])
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def end_with_stdin() -> None:
    """End this child process when its parent ends, which holds the other end of standard input.

    It ends by SIGTERM, and forcibly if that takes too long. Nothing can read standard input
    afterwards, not even user code.
    """
    pipe = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(pipe, 1024):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(_GRACE_S)
        os._exit(1)  # user code may prevent a clean exit

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
