"""What it costs that Spark encrypts what it sends; what checksums of its files would cost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks import loads
from benchmarks.figures import Figure, Settings, figure_of, in_turns, ratio_of
from benchmarks.running import Running

_AS_IT_IS = "encrypted"
_WAYS = {
    _AS_IT_IS: (),
    "not encrypted": (
        *("--conf", "spark.authenticate=false"),
        *("--conf", "spark.network.crypto.enabled=false"),
    ),
    "encrypted, with checksums of files": (
        *("--conf", "spark.sql.streaming.checkpoint.fileChecksum.enabled=true"),
    ),
}
"""Options of `wallaroo run` by what they lead to; the first is the default."""


def measured(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Market Spread in each of the ways, in turns; ratios are of single turns."""
    load = loads.market_spread(settings.spread)
    with contextlib.ExitStack() as stack:
        ways = {
            way: stack.enter_context(Running(load, settings.workers, scratch, options=options))
            for way, options in _WAYS.items()
        }
        passes = in_turns(ways, settings.passes)
    for way, of_way in passes.items():
        yield figure_of(f"Market Spread, {way}, TCP to TCP", of_way)
    for way in list(_WAYS)[1:]:
        ours, others = ([p.rate for p in passes[one]] for one in (_AS_IT_IS, way))
        yield ratio_of(f"Market Spread, {_AS_IT_IS} against {way}", ours, others)
