"""Records of a log in rows, and joined again."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from wallaroo.dataflow.log_rows import BASE, ROW_BYTES, count_rows, records_in, rows_of

SIZES = st.sampled_from([1, ROW_BYTES - 1, ROW_BYTES, ROW_BYTES + 1, 2 * ROW_BYTES, 700_000])


@given(
    first=st.integers(0, 1 << 39),
    sizes=st.lists(SIZES, max_size=4),
    base=st.none() | SIZES,
    seed=st.integers(),
)
def test_records_come_back_in_order_from_rows_in_any_order(
    first: int, sizes: list[int], base: int | None, seed: int
) -> None:
    draw = random.Random(seed)
    records = {first + number: draw.randbytes(size) for number, size in enumerate(sizes)}
    if base is not None:
        records[BASE] = draw.randbytes(base)
    rows = [row for index, record in records.items() for row in rows_of(index, record)]
    assert all(len(row.content) <= ROW_BYTES for row in rows)
    assert len({row.place for row in rows}) == len(rows) == sum(map(count_rows, records.values()))
    assert all(-(1 << 63) <= row.place < 1 << 63 for row in rows)
    draw.shuffle(rows)
    assert all(row.record in records for row in rows)
    assert list(records_in(rows)) == [record for _, record in sorted(records.items())]


def test_a_record_of_one_row_has_its_index_as_place() -> None:
    """As it was before large records were divided."""
    assert [*rows_of(BASE, b"base"), *rows_of(5, b"record")] == [(-1, b"base"), (5, b"record")]
    assert list(rows_of(5, b"")) == []
