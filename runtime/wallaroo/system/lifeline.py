"""Ends processes together with their parent, and what they have started together with them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import threading
import warnings

_PR_SET_PDEATHSIG = 1
_GRACE_S = 15.0
"""Seconds that a process has to shut down cleanly after its parent has ended."""


def die_with_parent() -> None:
    """Kill this process, which `fork_group` has forked, when the thread that forked it ends.

    Its group ends with it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    end_group_with_leader()


def end_group_with_leader() -> None:
    """Have a process kill the group that this process leads once this one has ended in any way.

    It is in the group, whose number is therefore not free for others, and no child of this process,
    whose user code may wait for all of its children.
    """
    with contextlib.suppress(OSError):  # not supported in a sandbox
        leader = os.pidfd_open(os.getpid())
        parent = os.fork()
        if parent:
            os.close(leader)
            os.waitpid(parent, 0)
            return
        try:
            if os.fork() == 0:
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                os.closerange(0, leader)  # others wait for the end of its connections
                os.closerange(leader + 1, os.sysconf("SC_OPEN_MAX"))
                ended = select.poll()
                ended.register(leader, select.POLLIN)
                ended.poll()
                os.killpg(0, signal.SIGKILL)
        finally:
            os._exit(0)


def fork_group() -> int:
    """Fork a process that leads a group, in which all that it starts is; as `os.fork` does.

    What has left the group is not in it any more, such as a daemon. Python warns of a fork beside
    threads; those of callers do no harm, and the new process has none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        leader = os.fork()
    with contextlib.suppress(OSError):  # both do it, and the second too late or for nothing
        os.setpgid(leader, leader)
    return leader


def kill_group(leader: int) -> None:
    """Kill a process that `fork_group` has forked and all of its group; it is not reaped yet."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def reap_group(leader: int) -> int | None:
    """Reap a process that `fork_group` has forked, if it has ended, and kill its group.

    Returns:
        Its status, as `os.waitpid` has it; None while it runs.
    """
    if os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        return None
    kill_group(leader)  # before its number is free for others
    return os.waitpid(leader, 0)[1]


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
