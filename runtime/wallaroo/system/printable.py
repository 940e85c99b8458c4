"""Escapes untrusted text for a terminal or a log, so that it cannot forge lines or colours."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UNSAFE = (
    "\x00-\x1f\x7f-\x9f"  # control characters
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # writing direction
    "\u2028\u2029\ufeff"
    "\ud800-\udfff"  # surrogates
)
_ONE_LINE = re.compile(f"[{_UNSAFE}]")
_LINES = re.compile(f"(?!\n)[{_UNSAFE}]")


def printable(text: object) -> str:
    r"""Escape *text* to a single line.

    Example:
        >>> printable("a\nb\x1b[2J")
        'a\\nb\\x1b[2J'
    """
    return _ONE_LINE.sub(_escaped, str(text))


def counted(number: int, noun: str) -> str:
    """Return *number* with *noun*, in the plural unless it is one.

    Example:
        >>> counted(1, "message"), counted(2_000, "message")
        ('1 message', '2,000 messages')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown_time(ns: int) -> str:
    """A time, in nanoseconds since the Unix epoch, to the millisecond.

    Example:
        >>> shown_time(1_750_000_000_104_999_999)
        '2025-06-15T15:06:40.104Z'
    """
    text = datetime.fromtimestamp(ns // 1_000_000 / 1e3, UTC).isoformat("T", "milliseconds")
    return text.replace("+00:00", "Z")


def printable_lines(text: str) -> str:
    r"""Escape *text* except for its line feeds.

    Example:
        >>> printable_lines("a\n\x1bb")
        'a\n\\x1bb'
    """
    return _LINES.sub(_escaped, text)


def printable_output(data: bytes) -> bytes:
    r"""Escape *data*, which should be UTF-8, except for its line feeds.

    Example:
        >>> printable_output(b"a\xff\n\x1bb")
        b'a\\xff\n\\x1bb'
    """
    return printable_lines(data.decode("utf-8", "backslashreplace")).encode()


def printable_json(text: str) -> str:
    r"""Escape JSON *text* without changing its meaning or its line feeds.

    Example:
        >>> printable_json('"\x9b2J"')
        '"\\u009b2J"'
    """
    return _LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
