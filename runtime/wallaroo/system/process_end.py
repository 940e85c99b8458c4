"""Describes how a process ended, according to its exit code, and what to do."""

from __future__ import annotations

import signal

from wallaroo.system.memory import MemoryKills

_AGAIN = "start again with the same --state-dir"


def how_ended(code: int, kills: MemoryKills | None = None) -> str:
    """Describe the exit code *code*, in the convention of `subprocess`.

    Args:
        code: The exit code.
        kills: Knows what the kernel has killed since the process was started, or earlier.

    Example:
        >>> how_ended(-9), how_ended(3)
        ('was killed by SIGKILL', 'ended with exit code 3')
    """
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal_name(-code)
    if code == -signal.SIGKILL and kills is not None and kills.found():
        return f"was killed by {name} because memory ran out"
    return f"was killed by {name}"


def what_to_do(code: int, kills: MemoryKills | None = None) -> str:
    """Return what to do after a process has ended with *code*.

    Args:
        code: The exit code.
        kills: As for `how_ended`.

    Example:
        >>> what_to_do(3)
        'check the preceding log entries, then start again with the same --state-dir'
    """
    if code == -signal.SIGKILL:
        if kills is not None and kills.found():
            return (
                "provide more memory (see dmesg for what took how much, and the limits of the "
                f"container), then {_AGAIN}"
            )
        return (
            "the system does this when memory runs out (see dmesg, or the limits of the "
            f"container); if that is the cause, provide more memory, then {_AGAIN}"
        )
    if code == -signal.SIGTERM:
        return f"another process requested this; {_AGAIN}"
    return f"check the preceding log entries, then {_AGAIN}"


def signal_name(number: int) -> str:
    """Return the name of a signal.

    Example:
        >>> signal_name(9), signal_name(63)
        ('SIGKILL', 'signal 63')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
