"""The kept inputs, and inputs like them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hypothesis import strategies as st

_SEEDS = Path(__file__).with_name("seeds")


def kept(taker: str) -> Mapping[str, bytes]:
    """What is kept for *taker*, by name."""
    files = sorted((_SEEDS / taker).iterdir())
    assert files, taker
    return {file.name: file.read_bytes() for file in files}


def like(taker: str) -> st.SearchStrategy[bytes]:
    """Kept inputs of *taker* with a few edits, joined with others, or whatever bytes."""
    seeds = st.sampled_from(list(kept(taker).values()))
    edited = st.builds(_edited, seeds, st.lists(_EDITS, min_size=1, max_size=6))
    return edited | st.builds(bytes.__add__, edited, edited) | st.binary(max_size=120)


Edit = Callable[[bytes], bytes]


def _edited(data: bytes, edits: list[Edit]) -> bytes:
    for edit in edits:
        data = edit(data)
    return data


def _replace(place: int, put: bytes) -> Edit:
    return lambda data: data[: _at(place, data)] + put + data[_at(place, data) + len(put) :]


def _insert(place: int, put: bytes) -> Edit:
    return lambda data: data[: _at(place, data)] + put + data[_at(place, data) :]


def _delete(place: int, size: int) -> Edit:
    return lambda data: data[: _at(place, data)] + data[_at(place, data) + size :]


def _repeat(place: int, size: int, times: int) -> Edit:
    def edit(data: bytes) -> bytes:
        start = _at(place, data)
        return data[:start] + data[start : start + size] * times + data[start + size :]

    return edit


def _at(place: int, data: bytes) -> int:
    return place % (len(data) + 1)


_PLACES = st.integers(0, 255)
_PUTS = st.binary(min_size=1, max_size=8) | st.sampled_from(
    [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b":", b",", b"@", b"["]
)
_EDITS: st.SearchStrategy[Edit] = st.one_of(
    st.builds(_replace, _PLACES, _PUTS),
    st.builds(_insert, _PLACES, _PUTS),
    st.builds(_delete, _PLACES, st.integers(1, 8)),
    st.builds(_repeat, _PLACES, st.integers(1, 16), st.integers(0, 40)),
)
