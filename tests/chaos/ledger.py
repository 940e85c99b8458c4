"""What was sent and what came out, key by key: a loss, a double and a swap are named."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO


@dataclass(frozen=True)
class Verdict:
    """What is wrong with the outputs of some messages: nothing, if all is well."""

    messages: int
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    swapped: list[str] = field(default_factory=list)
    miscounted: list[str] = field(default_factory=list)
    """Messages that their state entity has seen as another one than the n-th, though in order."""
    torn: list[str] = field(default_factory=list)
    """Outputs that do not go on from the state that the outputs before them were made from."""

    @property
    def wrong(self) -> list[str]:
        """All that is wrong, in words."""
        kinds = ("lost", "doubled", "swapped", "miscounted", "torn")
        return [f"{what} was {kind}" for kind in kinds for what in getattr(self, kind)]


class Ledger:
    """Notes what is sent and received; may be used by several threads.

    An output has entries, separated by commas. An entry has a key, the number of its message and
    how many messages of the key were seen; then, for each entity on the way, its name, how many
    messages it has seen, and what it has drawn for the last one and for this one.

    Args:
        preloaded: Tells how many messages the state of a key has seen before the first one.
        entries: Makes entries of an output that has none.
    """

    def __init__(
        self,
        preloaded: Callable[[str], int] = lambda _key: 0,
        entries: Callable[[bytes], bytes] = lambda output: output,
    ) -> None:
        self.history: TextIO | None = None
        """Where to keep what `history.confirm` reads; None to keep nothing."""
        self._sent_at: dict[tuple[str, int], int] = {}
        """When the messages were sent that have no output yet, while there is a history."""
        self._preloaded, self._entries = preloaded, entries
        self._changed = threading.Condition()
        self._sent: dict[str, int] = {}
        self._received: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._judged: dict[str, int] = defaultdict(int)
        """Messages of each key that a verdict has covered."""
        self._due: dict[str, int] = {}
        self._drawn: dict[bytes, tuple[int, bytes]] = {}
        """By entity: how many messages it has seen, and what it has drawn for the last one."""
        self._torn: list[str] = []
        self.sent = 0
        self.received = 0
        self._last_at = time.monotonic()
        self._longest_s = 0.0

    def next(self, key: str) -> bytes:
        """The next message of *key*, which counts as sent."""
        with self._changed:
            if key not in self._sent:
                self._sent[key] = self._judged[key] = self._preloaded(key)
            self._sent[key] += 1
            self.sent += 1
            if self.history is not None:
                self._sent_at[key, self._sent[key]] = time.monotonic_ns()
            return b"%s %d" % (key.encode(), self._sent[key])

    def note(self, outputs: list[bytes]) -> None:
        """Take *outputs*, in the order in which they came."""
        if not outputs:
            return
        with self._changed:
            for output in outputs:
                for entry in filter(None, self._entries(output).split(b",")):
                    key, number, count, *links = entry.split()
                    self._received[key.decode()].append((int(number), int(count)))
                    self._keep(key.decode(), int(number), int(count))
                    self.received += 1
                    for entity, seen, former, drawn in zip(*[iter(links)] * 4, strict=True):
                        self._link(entity, int(seen), former, drawn)
            now = time.monotonic()
            self._longest_s, self._last_at = max(self._longest_s, now - self._last_at), now
            self._changed.notify_all()

    def longest_stop(self) -> float:
        """Longest time without an output since it was last asked, in seconds."""
        with self._changed:
            now = time.monotonic()
            longest = max(self._longest_s, now - self._last_at)
            self._longest_s, self._last_at = 0.0, now
            return longest

    def wait_for_all(self, timeout_s: float) -> bool:
        """Wait until each message that was sent up to now has an output; tells whether it has.

        A verdict is about the messages up to then.
        """
        with self._changed:
            due = self._due = dict(self._sent)
            awaited = set(due)

            def there() -> bool:
                awaited.difference_update(
                    [key for key in awaited if self._highest(key) >= due[key]]
                )
                return not awaited

            return self._changed.wait_for(there, timeout_s)

    def judge(self) -> Verdict:
        """Compare the outputs of the messages that were waited for with what is due."""
        with self._changed:
            lost: list[str] = []
            doubled: list[str] = []
            swapped: list[str] = []
            miscounted: list[str] = []
            total = 0
            for key, due in self._due.items():
                begin, self._judged[key] = self._judged[key], due
                total += due - begin
                seen: set[int] = set()
                highest = begin
                later: list[tuple[int, int]] = []
                for number, count in self._received.pop(key, []):
                    name = f"message {number} of key {key}"
                    if number > self._sent[key]:
                        doubled.append(f"{name}, which was never sent,")
                    elif number > due:
                        later.append((number, count))
                    if number > due:
                        continue
                    if number in seen or number <= begin:
                        doubled.append(name)
                    elif number < highest or later:
                        swapped.append(name)
                    elif count != number:
                        miscounted.append(f"{name} (as number {count})")
                    seen.add(number)
                    highest = max(highest, number)
                self._received[key] = later
                lost += [
                    f"message {number} of key {key}"
                    for number in range(begin + 1, due + 1)
                    if number not in seen
                ]
            torn, self._torn = self._torn, []
            return Verdict(total, lost, doubled, swapped, miscounted, torn)

    def _keep(self, key: str, number: int, count: int) -> None:
        """Add a message with its output to the history."""
        if self.history is not None:
            before, sent_at = self._preloaded(key), self._sent_at.pop((key, number), 0)
            times = f"{sent_at} {time.monotonic_ns()}"
            self.history.write(f"{key} {number - before} {count - before} {times}\n")

    def _link(self, entity: bytes, seen: int, former: bytes, drawn: bytes) -> None:
        name = entity.decode()
        last = self._drawn.get(entity, (self._preloaded(name), b"0"))
        if last != (seen - 1, former):
            self._torn.append(f"message {seen} of entity {name} (from {former!r} after {last})")
        self._drawn[entity] = seen, drawn

    def _highest(self, key: str) -> int:
        received = self._received.get(key)
        return received[-1][0] if received else self._judged[key]
