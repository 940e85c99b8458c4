"""The identity of a journal: random names, one for each opening for writing.

A copy of a journal has the names of its original up to the moment of the copy; from its next
opening on, its names differ. An epoch ends under the name of the latest opening, which
the checkpoint keeps beside the epoch's last offset. So a checkpoint and a journal that do not
belong together are detected, even if the journal has as many messages as the checkpoint has
processed, or more.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple


class Opening(NamedTuple):
    """A journal was opened to be written."""

    first: int
    """Offset of the first message that was accepted then."""
    name: str


def opened_anew(openings: Sequence[Opening], trimmed: int, end: int) -> list[Opening]:
    """The openings that any checkpoint may still name, and one more.

    Args:
        openings: Those before.
        trimmed: Offset before which all messages are deleted.
        end: Offset after the last message.
    """
    # a checkpoint that names an opening has an offset of no less than `trimmed`, and no more
    # than the beginning of the next opening
    known = [*openings, Opening(end, uuid.uuid4().hex)]
    while len(known) > 1 and known[1].first < trimmed:
        del known[0]
    return known


def is_known(openings: Sequence[Opening], name: str | None) -> bool:
    """Whether a journal with *openings* had one called *name*; None is of before there were any."""
    return name is None or any(opening.name == name for opening in openings)


def departure(openings: Sequence[Opening], end: int, offset: int, name: str | None) -> int | None:
    """Where a journal diverges from the one that *offset* belongs to; None if it does not.

    Args:
        openings: Openings of the journal.
        end: Offset after its last message.
        offset: Where an epoch ended.
        name: The opening under which it was planned; None if that is not known.

    Returns:
        Offset of the first of its messages that the other journal does not have.

    Example:
        >>> first, copied = Opening(0, "a"), Opening(100, "b")
        >>> departure([first], 250, 200, "a")
        >>> departure([first, copied], 250, 200, "a")
        100
        >>> departure([Opening(0, "c")], 250, 200, "a")
        0
    """
    if openings and openings[-1].name == name:
        return None if offset <= end else end
    if not is_known(openings, name):
        return openings[0].first if openings else end
    names = [opening.name for opening in openings]
    later = openings if name is None else openings[names.index(name) + 1 :]
    return min((o.first for o in later if o.first < offset), default=end if end < offset else None)
