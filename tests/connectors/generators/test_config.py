"""Generators as each generation of Wallaroo wrote them."""

from __future__ import annotations

import wallaroo


class Numbers:
    def initial_value(self) -> int:
        return 1

    def apply(self, previous: int) -> int:
        return previous + 1


def test_a_generator_source_is_written_with_or_without_a_name() -> None:
    gen = Numbers()
    plain, keyword = wallaroo.GenSourceConfig(gen), wallaroo.GenSourceConfig(gen=gen)
    named = [wallaroo.GenSourceConfig("n", gen), wallaroo.GenSourceConfig(name="n", gen=gen)]
    assert all(config.gen is gen for config in [plain, keyword, *named])
    assert [config.name for config in [plain, keyword, *named]] == ["", "", "n", "n"]
