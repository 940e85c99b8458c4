"""Text that others wrote, for a terminal or a log: what could forge lines or colours is escaped."""

from __future__ import annotations

import re

_UNSAFE = (
    "\x00-\x1f\x7f-\x9f"  # control characters
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # order of writing
    "\u2028\u2029\ufeff"
    "\ud800-\udfff"  # of no character
)
_ONE_LINE = re.compile(f"[{_UNSAFE}]")
_LINES = re.compile(f"(?!\n)[{_UNSAFE}]")


def printable(text: object) -> str:
    r"""*text* in one line that shows what is in it.

    Example:
        >>> printable("a\nb\x1b[2J")
        'a\\nb\\x1b[2J'
    """
    return _ONE_LINE.sub(_escaped, str(text))


def printable_lines(text: str) -> str:
    r"""*text*, whose line feeds are meant.

    Example:
        >>> printable_lines("a\n\x1bb")
        'a\n\\x1bb'
    """
    return _LINES.sub(_escaped, text)


def printable_json(text: str) -> str:
    r"""JSON *text* that means the same, line feeds between its values included.

    Example:
        >>> printable_json('"\x9b2J"')
        '"\\u009b2J"'
    """
    return _LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
