"""The applications on Bytewax, with its recovery on, calling the applications' own functions.

Runs in a separate environment. Prints the seconds it took, from the start of the dataflow.

    python -m benchmarks.peers.bytewax_flow APP WORKERS RECOVERY OUT NAME=FILE…

A worker is a process; each reads its own part of the inputs, FILE.0 for the first.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import KeyedStream, StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

from benchmarks.joining import application as joining
from benchmarks.loads import APPS
from benchmarks.peers.bare import payloads

_BATCH = 1000
_SNAPSHOT_EVERY = timedelta(seconds=1)
_PROCESS = "WALLAROO_BENCH_PROCESS"
_ADDRESSES = "WALLAROO_BENCH_ADDRESSES"


class FramesPart(StatefulSourcePartition[bytes, int]):
    """One file of frames."""

    def __init__(self, path: Path, done: int) -> None:
        self._payloads = payloads(path)
        self._done = 0
        while self._done < done:
            self.next_batch()

    def next_batch(self) -> list[bytes]:
        """Up to a thousand payloads."""
        batch = [payload for _, payload in zip(range(_BATCH), self._payloads, strict=False)]
        if not batch:
            raise StopIteration
        self._done += len(batch)
        return batch

    def snapshot(self) -> int:
        """Payloads read."""
        return self._done


class Frames(FixedPartitionedSource[bytes, int]):
    """Files of frames, one for each worker."""

    def __init__(self, path: Path, parts: int) -> None:
        self._parts = {str(n): path.with_name(f"{path.name}.{n}") for n in range(parts)}

    def list_parts(self) -> list[str]:
        """Names of the parts."""
        return list(self._parts)

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> FramesPart:
        """Open a part."""
        return FramesPart(self._parts[for_part], resume_state or 0)


class FilePart(StatelessSinkPartition[bytes]):
    """A file that a worker appends to."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", 1 << 20)

    def write_batch(self, items: list[bytes]) -> None:
        """Write outputs."""
        self._file.write(b"".join(items))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Files(DynamicSink[bytes]):
    """A file for each worker."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def build(self, step_id: str, worker_index: int, worker_count: int) -> FilePart:
        """Open the worker's file."""
        return FilePart(self._path.with_name(f"{self._path.name}.{worker_index}"))


def over(make: type, step: Callable[[Any, Any], Iterable[bytes]]) -> type:
    """A logic that applies *step* to each message and an entity of the class *make*."""

    class Logic(StatefulBatchLogic[Any, bytes, Any]):
        def __init__(self, entity: Any) -> None:
            self.entity = make() if entity is None else entity

        def on_batch(self, values: list[Any]) -> tuple[Iterable[bytes], bool]:
            entity = self.entity
            return [output for value in values for output in step(value, entity)], False

        def snapshot(self) -> Any:
            return self.entity

    return Logic


def market_spread(inputs: dict[str, Path], workers: int, out: Path) -> Dataflow:
    """The dataflow of Market Spread."""
    import application as app

    key_of, encode = app.symbol_of.function, app.order_result_encoder.function
    check, update = app.check_order.function, app.update_market_data.function

    def keyed(decode: Callable[[bytes], Any]) -> Callable[[list[bytes]], list[Any]]:
        return lambda batch: [(key_of(m).decode(), m) for m in map(decode, batch)]

    def step(message: Any, entity: Any) -> Iterable[bytes]:
        compute = check if isinstance(message, app.Order) else update
        output, _ = compute(message, entity)
        return () if output is None else (encode(output),)

    flow = Dataflow("market_spread")
    both = []
    for name, decoder in (("market", app.market_data_decoder), ("orders", app.order_decoder)):
        read = op.input(name, flow, Frames(inputs[name], workers))
        both.append(op.flat_map_batch(f"decode {name}", read, keyed(decoder.function)))
    merged = op.merge("merge", *both)
    made = op.stateful_batch("check", merged, over(app.SymbolData, step))
    rejected = op.flat_map_batch("rejected", made, lambda batch: [value for _, value in batch])
    op.output("out", rejected, Files(out))
    return flow


def word_count(inputs: dict[str, Path], workers: int, out: Path) -> Dataflow:
    """The dataflow of Word Count."""
    import application as app

    decode, split, key_of = app.decoder.function, app.split.function, app.first_letter.function
    compute, encode = app.count_word.function, app.encoder.function

    def words(batch: list[bytes]) -> list[tuple[str, str]]:
        return [(key_of(word), word) for payload in batch for word in split(decode(payload))]

    def step(word: str, entity: Any) -> Iterable[bytes]:
        return (encode(compute(word, entity)[0]),)

    flow = Dataflow("word_count")
    read = op.input("lines", flow, Frames(inputs["lines"], workers))
    keyed = op.flat_map_batch("split", read, words)
    counted = op.stateful_batch("count", keyed, over(app.WordTotals, step))
    counts = op.flat_map_batch("counts", counted, lambda batch: [value for _, value in batch])
    op.output("out", counts, Files(out))
    return flow


def _both_sides(
    inputs: dict[str, Path], workers: int, flow: Dataflow
) -> list[KeyedStream[joining.Trade | joining.Quote]]:
    decoders = {"trades": joining.decode_trade.function, "quotes": joining.decode_quote.function}

    def keyed(decode: Callable[[bytes], Any]) -> Callable[[list[bytes]], list[Any]]:
        return lambda batch: [(m.symbol, m) for m in map(decode, batch)]

    return [
        op.flat_map_batch(
            f"decode {name}", op.input(name, flow, Frames(inputs[name], workers)), keyed(decode)
        )
        for name, decode in decoders.items()
    ]


def joining_by_operator(inputs: dict[str, Path], workers: int, out: Path) -> Dataflow:
    """A running join of the last message of either side: an output for each message."""
    value, encode = joining.value.function, joining.encode.function

    def values(batch: list[tuple[str, tuple[Any, Any]]]) -> list[bytes]:
        return [
            encode(value(trade, quote)) if trade is not None else encode((0, quote.price))
            for _, (trade, quote) in batch
        ]

    flow = Dataflow("joining")
    both = _both_sides(inputs, workers, flow)
    joined = op.join("join", *both, insert_mode="last", emit_mode="running")
    op.output("out", op.flat_map_batch("values", joined, values), Files(out))
    return flow


class LastQuote:
    """The table of `joining_by_hand` for one symbol."""

    def __init__(self) -> None:
        self.quote: joining.Quote | None = None


def joining_by_hand(inputs: dict[str, Path], workers: int, out: Path) -> Dataflow:
    """Each trade with the last price, by a stateful step of our own."""
    value, encode, kind = joining.value.function, joining.encode.function, joining.Quote

    def step(message: Any, last: LastQuote) -> Iterable[bytes]:
        if isinstance(message, kind):
            last.quote = message
            return ()
        return (encode(value(message, last.quote)),)

    flow = Dataflow("joining")
    merged = op.merge("merge", *_both_sides(inputs, workers, flow))
    made = op.stateful_batch("join", merged, over(LastQuote, step))
    values = op.flat_map_batch("values", made, lambda batch: [value for _, value in batch])
    op.output("out", values, Files(out))
    return flow


def main() -> None:
    """Start the workers, or be one."""
    app, number, recovery, out, *named = sys.argv[1:]
    workers, directory = int(number), Path(recovery)
    inputs = {name: Path(file) for name, _, file in (pair.partition("=") for pair in named)}
    sys.path.insert(0, str(APPS / app))
    make = {
        "market_spread": market_spread,
        "word_count": word_count,
        "joining": joining_by_operator,
        "joining_by_hand": joining_by_hand,
    }[app]
    settings = (make(inputs, workers, Path(out)),)
    kept = {"recovery_config": RecoveryConfig(directory), "epoch_interval": _SNAPSHOT_EVERY}
    if _PROCESS in os.environ:
        addresses = os.environ[_ADDRESSES].split(";")
        cli_main(*settings, process_id=int(os.environ[_PROCESS]), addresses=addresses, **kept)
        return
    directory.mkdir()
    init_db_dir(directory, workers)
    started = time.perf_counter()
    if workers == 1:
        cli_main(*settings, **kept)
    else:
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(workers)]
        addresses = [f"127.0.0.1:{listening.getsockname()[1]}" for listening in sockets]
        for listening in sockets:
            listening.close()
        command = [sys.executable, "-m", "benchmarks.peers.bytewax_flow", *sys.argv[1:]]
        others = {**os.environ, _ADDRESSES: ";".join(addresses)}
        processes = [
            subprocess.Popen(command, env={**others, _PROCESS: str(n)}) for n in range(workers)
        ]
        for process in processes:
            if process.wait():
                sys.exit(process.returncode)
    print(time.perf_counter() - started)


if __name__ == "__main__":
    main()
