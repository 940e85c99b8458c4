"""How a process has ended, in words: what its exit code says, and what is to be done."""

from __future__ import annotations

import signal

_AGAIN = "start again with the same --state-dir"


def how_ended(code: int) -> str:
    """What *code*, as `subprocess` has it, says of a process.

    Example:
        >>> how_ended(-9), how_ended(3)
        ('was killed by SIGKILL', 'ended with exit code 3')
    """
    return f"ended with exit code {code}" if code >= 0 else f"was killed by {_name(-code)}"


def what_to_do(code: int) -> str:
    """What whoever started that process can do about it.

    Example:
        >>> what_to_do(3)
        'see what was logged before; then start again with the same --state-dir'
    """
    if code == -signal.SIGKILL:
        return (
            "the system does so where memory runs out (see dmesg, or the limits of the container); "
            f"if that was it, make room; then {_AGAIN}"
        )
    if code == -signal.SIGTERM:
        return f"somebody has told it to end; {_AGAIN}"
    return f"see what was logged before; then {_AGAIN}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
