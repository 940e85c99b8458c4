"""JSON beside plain msgspec, which decodes the same messages into the same class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import loads
from benchmarks.figures import Figure, Settings, figure_of, median_of, ratio_of
from benchmarks.peers import measured as peers
from benchmarks.running import Pass, Running

_ALONE = "JSON decoded in a loop"
_LOOP = "JSON from file to file, plain msgspec"
_OURS = "JSON, TCP to TCP"


def decoding(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """The decoder alone, and an application that mostly decodes, in turns."""
    load = loads.trades(settings.decoded)
    styles = {f"{_ALONE}, msgspec": "msgspec", f"{_ALONE}, json_decoder": "ours", _LOOP: "loop"}
    plain: dict[str, list[float]] = {what: [] for what in styles}
    ours: list[Pass] = []
    with Running(load, settings.workers, scratch) as running:
        running.tcp_to_tcp()
        for _ in range(settings.passes):
            ours.append(running.tcp_to_tcp())
            for what, style in styles.items():
                plain[what].append(peers.plain_msgspec(load, style, scratch))
    for what, rates in plain.items():
        yield median_of(what, rates, "messages/s")
    yield figure_of(_OURS, ours)
    alone = (plain[f"{_ALONE}, json_decoder"], plain[f"{_ALONE}, msgspec"])
    for what, (one, other) in {
        f"{_ALONE}, json_decoder against msgspec": alone,
        f"{_OURS} against plain msgspec": ([p.rate for p in ours], plain[_LOOP]),
    }.items():
        yield ratio_of(what, one, other)
