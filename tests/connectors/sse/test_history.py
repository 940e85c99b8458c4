"""What viewers can read: every output once and in order, or that it is gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wallaroo.connectors.sse.history import History


def events(data: bytes) -> list[tuple[str, str]]:
    """Identifier and data of each event in *data*, as a browser finds them."""
    found = []
    for event in data.decode().split("\n\n")[:-1]:
        fields = [line.partition(": ")[::2] for line in event.split("\n")]
        text = "\n".join(value for name, value in fields if name == "data")
        found.append((dict(fields)["id"], text))
    return found


def read(history: History, number: int, most: int = 50) -> list[str] | None:
    """All texts from *number* on."""
    found: list[str] = []
    while (piece := history.since(number, most)) is not None:
        if not piece.data:
            return found
        got = events(piece.data)
        assert [identifier for identifier, _ in got] == [
            f"s-{one}" for one in range(number, piece.after)
        ]
        found += [text for _, text in got]
        number = piece.after
    return None


@given(
    st.lists(st.lists(st.text("ab\r\n", max_size=30).map(str.encode), max_size=5), max_size=20),
    st.integers(200, 2000),
    st.integers(1, 300),
    st.data(),
)
def test_whoever_begins_anywhere_gets_all_that_follows_or_is_told(
    batches: list[list[bytes]], bound: int, most: int, data: st.DataObject
) -> None:
    history, made, number = History(bound, None, "s"), list[bytes](), 1
    for batch in batches:
        again = data.draw(st.integers(0, len(made)))  # a delivery may come a second time
        history.add(number - again, made[len(made) - again :])
        history.add(number, batch)
        made += batch
        number += len(batch)
    texts = [m.decode().replace("\r\n", "\n").replace("\r", "\n") for m in made]
    assert history.next == number
    for start in range(1, number + 1):
        found = read(history, start, most)
        assert found == (texts[start - 1 :] if start >= history.first else None)
    if made:
        assert history.first < number  # the last output is always there


def test_identifiers_of_other_series_and_of_what_never_was_are_unknown() -> None:
    history = History(1000, None, "a-b")
    history.add(1, [b"x", b"y"])
    assert history.number_of(history.identifier(2)) == 2
    for unknown in ("a-b-3", "a-2", "2", "", "a-b-", "a-b-²", "a-b-" + "9" * 5000, "a-b--1"):
        assert history.number_of(unknown) is None


def test_a_viewer_may_be_ahead_after_a_restart() -> None:
    history = History(1000, None, "s")
    history.begin(5, 7)  # 5 to 7 were published, and perhaps sent
    assert history.number_of("s-7") == 7
    assert history.number_of("s-8") is None
    assert read(history, 8) == []
    history.add(5, [b"5", b"6", b"7", b"8"])
    assert read(history, 8) == ["8"]


def test_after_outputs_that_are_not_to_be_had_it_begins_anew() -> None:
    history = History(1000, None, "s")
    history.begin(5, 0)
    history.add(5, [b"five"])
    history.begin(9, 0)  # too late
    history.add(8, [b"eight"])
    assert (history.first, history.next) == (8, 9)
    assert history.since(5, 100) is None
    assert read(history, 8) == ["eight"]
