"""State directories of released versions, which every later version continues with.

`VERSION.tar.gz` is what a run of that version has left that was killed: some of its messages are in
the checkpoint, some are published and not in the checkpoint, some are only accepted; none of its
outputs was delivered; one message became a dead letter. `python -m tests.golden.released.make`
makes that of the present version (see docs/releasing.md). They are never changed.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
APP = HERE / "application.py"

TEXTS = tuple(b"%c%d" % (97 + n % 3, n) for n in range(30))
NUMBERS = (b"many", *(b"%d" % n for n in range(28)), b"few")
THIRDS = 3
"""Parts in which the messages came: those in the checkpoint, those published, those accepted."""


def part(messages: tuple[bytes, ...], number: int) -> tuple[bytes, ...]:
    """One of the three parts of *messages*."""
    size = len(messages) // THIRDS
    return messages[number * size : (number + 1) * size]
