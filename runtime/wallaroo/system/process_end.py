"""Describes how a process ended, according to its exit code, and what to do."""

from __future__ import annotations

import signal

_AGAIN = "start again with the same --state-dir"


def how_ended(code: int) -> str:
    """Describe the exit code *code*, in the convention of `subprocess`.

    Example:
        >>> how_ended(-9), how_ended(3)
        ('was killed by SIGKILL', 'ended with exit code 3')
    """
    return f"ended with exit code {code}" if code >= 0 else f"was killed by {_name(-code)}"


def what_to_do(code: int) -> str:
    """Return what to do after a process has ended with *code*.

    Example:
        >>> what_to_do(3)
        'check the preceding log entries, then start again with the same --state-dir'
    """
    if code == -signal.SIGKILL:
        return (
            "the system does this when memory runs out (see dmesg, or the limits of the "
            f"container); if that is the cause, provide more memory, then {_AGAIN}"
        )
    if code == -signal.SIGTERM:
        return f"another process requested this; {_AGAIN}"
    return f"check the preceding log entries, then {_AGAIN}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
