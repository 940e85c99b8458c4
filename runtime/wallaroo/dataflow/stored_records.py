"""Records of entities that are not in memory, and the store that has them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, Self


class LocalStoreFailed(BaseException):
    """The local store cannot go on, so neither can its process, which a new one replaces.

    It is no `Exception`: no message is at fault, and none may become a dead letter.

    Attributes:
        lacks_room: Whether its disk is full.
    """

    lacks_room = False

    @classmethod
    def of(cls, directory: Path, error: Exception, *, lacks_room: bool) -> Self:
        """What to say of an *error* of files in *directory*."""
        remedy = "make room there" if lacks_room else "see to it that files can be written there"
        made = cls(
            f"the local store of entities in {directory} failed: {error}; {remedy}, or let TMPDIR "
            "name a directory on another disk: no state is lost, the process starts again with "
            "what the log and the checkpoint have"
        )
        made.lacks_room = lacks_room
        return made


class Place(NamedTuple):
    """Where a record is."""

    hash: int
    """Hash of its key."""
    at: int
    """Its segment and its offset there."""
    size: int


class Record(NamedTuple):
    """An entity in the store."""

    hash: int
    """Hash of its key."""
    bucket: int
    key: bytes
    """Its key, as a pickle."""
    entity: bytes
    """The entity, as it is saved."""
    place: Place = Place(0, -1, 0)
    """Where it is; unless it is to be written."""


class RecordStore(Protocol):
    """The records of one state, found by the hashes of their keys.

    Each of its methods may raise `LocalStoreFailed`.
    """

    @property
    def count(self) -> int:
        """Number of records."""

    def write(self, records: Sequence[Record]) -> None:
        """Add *records*, whose keys it does not have."""

    def find(self, hashes: Sequence[int], but: Container[int] = ()) -> list[Record]:
        """The records with one of *hashes*, but for those that are at one of *but*."""

    def remove(self, places: Iterable[Place]) -> None:
        """Remove the records at *places*."""

    def tidy(self) -> None:
        """Free space, in proportion to what was written and removed since the last call."""

    def pieces(self) -> Iterator[list[Record]]:
        """All records of now, some at a time; those removed before their turn may be missing."""

    def of_buckets(self, buckets: Iterable[int]) -> Iterator[tuple[int, Iterator[Record]]]:
        """The records of each of *buckets*, to be read before those of the next."""
