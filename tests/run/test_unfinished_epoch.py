"""Finishing an unfinished epoch waits for what is missing, and not for what will not come."""

from __future__ import annotations

from typing import cast

import pytest

from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.errors import RuntimeFailure
from wallaroo.run.unfinished_epoch import finish


class Engine:
    """An engine that lacks its gateway at first, and may give up then."""

    def __init__(self, lacking: int, given_up: str | None = None) -> None:
        self.lacking, self.given_up = lacking, given_up

    def hold(self) -> None:
        """Take no further chunk."""

    def finish_epoch(self) -> None:
        if self.lacking:
            msg = "the gateway is away"
            raise RuntimeFailure(msg)

    def failure(self) -> str | None:
        self.lacking -= 1
        return self.given_up


def finish_with(engine: Engine, patience_s: float) -> None:
    finish(cast("RunningEngine", engine), patience_s, pause_s=0)


def test_a_gateway_that_is_away_for_a_moment_is_waited_for() -> None:
    engine = Engine(lacking=3)
    finish_with(engine, patience_s=60)
    assert engine.lacking == 0


@pytest.mark.parametrize(
    ("engine", "patience_s", "reason"),
    [(Engine(3, given_up="damaged"), 60.0, "damaged"), (Engine(3), 0.0, "the gateway is away")],
)
def test_it_ends_when_the_engine_gives_up_or_the_patience_ends(
    engine: Engine, patience_s: float, reason: str
) -> None:
    with pytest.raises(RuntimeFailure, match=f"^the unfinished epoch cannot be ended: {reason}$"):
        finish_with(engine, patience_s)
    assert engine.lacking == 2
