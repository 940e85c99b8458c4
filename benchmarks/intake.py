"""Messages by HTTP beside plain uvicorn, whose handler does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from benchmarks import loads, streams
from benchmarks.figures import Figure, Settings, median_of, ratio_of
from benchmarks.peers import measured as peers
from benchmarks.running import Running, end, said

_CONNECTIONS = 256
"""As many as keep the processor busy while others wait for the disk."""
_BATCH = 100
"""Messages of a request in batches."""
_WHOLE, _ALONE, _PLAIN = "ours", "our gateway alone", "plain uvicorn"


def intake(settings: Settings, scratch: Path) -> Iterator[Figure]:
    """Requests that are answered with 202, with one message and with a hundred, in turns."""
    texts, _ = streams.trades(_BATCH, seed=7)
    kinds = {
        "with one message": (texts[0], "application/json", settings.posted),
        f"with {_BATCH} messages (NDJSON)": (
            b"\n".join(texts), "application/x-ndjson", settings.posted // 5,
        ),
    }  # fmt: skip
    options = ("--", "http")
    with (
        Running(loads.trades(_BATCH), settings.workers, scratch, options=options) as running,
        peers.plain_uvicorn() as plain,
    ):
        for what, (body, kind, requests) in kinds.items():
            file = scratch / "body"
            file.write_bytes(body)
            rates: dict[str, list[float]] = {_WHOLE: [], _ALONE: [], _PLAIN: []}
            for number in range(settings.passes + 1):
                for name, found in rates.items():
                    address = plain if name == _PLAIN else running.sources[0]
                    with running.engine_paused() if name == _ALONE else nullcontext():
                        seconds = _posted(address, kind, requests, file)
                    running.drain()  # or else the next turn would share the cores with the engine
                    if number:  # the first one warms up
                        found.append(requests / seconds)
            for name, found in rates.items():
                yield median_of(f"posts {what}, {name}", found, "requests/s")
            for name in (_WHOLE, _ALONE):
                yield ratio_of(f"posts {what}, {name} against uvicorn", rates[name], rates[_PLAIN])


def _posted(address: str, kind: str, requests: int, file: Path) -> float:
    """Seconds that *requests* with the body in *file* take."""
    client = end("post", address, kind, str(_CONNECTIONS), str(requests), str(file))
    seconds = float(said(client))
    client.communicate()
    return seconds
