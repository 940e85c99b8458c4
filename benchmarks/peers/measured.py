"""Passes of the peers: the same loads, files to files, results checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from benchmarks import streams
from benchmarks.loads import BENCHMARKS, Load

_CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "wallaroo-benchmarks"
_INPUTS = {
    "market_spread": ("orders", "market"),
    "word_count": ("lines",),
    "joining": ("trades", "quotes"),
}
"""What the peers call the inputs of a load."""


def environment() -> Path:
    """Python of the peers' environment, which is made when it is not there."""
    python = _CACHE / "bin" / "python"
    wanted = (BENCHMARKS / "peers" / "requirements.txt").read_text()
    made_from = _CACHE / "requirements.txt"
    if not made_from.exists() or made_from.read_text() != wanted:
        click.echo(f"making the peers' environment in {_CACHE} …", err=True)
        venv.create(_CACHE, clear=True, with_pip=True)
        told = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*told, "-r", str(BENCHMARKS / "peers" / "requirements.txt")], check=True)
        made_from.write_text(wanted)
    return python


def bare(load: Load, style: str, scratch: Path) -> float:
    """Messages a second of bare Python on one core.

    Args:
        load: What it is given.
        style: `functions` calls the application's own functions, `by-hand` is one loop.
        scratch: Where files may be put.
    """
    files = [str(file) for file in load.write_to(scratch)]
    files.reverse()  # market data first: every symbol has a quote before its first order
    out = scratch / "bare.out"
    command = [sys.executable, "-m", "benchmarks.peers.bare", style, load.name, *files, str(out)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    _check(load, out.read_bytes(), "bare Python")
    return load.messages / float(told.stdout)


def plain_asyncio(load: Load, style: str, scratch: Path) -> float:
    """Messages a second of plain asyncio on one core.

    Args:
        load: What it is given.
        style: `limited` gives each call a time limit, `unlimited` none.
        scratch: Where files may be put.
    """
    (file,) = load.write_to(scratch)
    out = scratch / "asyncio.out"
    command = [sys.executable, "-m", "benchmarks.peers.plain_asyncio", style, str(file), str(out)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    _check(load, out.read_bytes(), "plain asyncio")
    return load.messages / float(told.stdout)


def plain_msgspec(load: Load, style: str, scratch: Path) -> float:
    """Messages a second of plain msgspec on one core.

    Args:
        load: What it is given.
        style: `loop` is the whole application; `msgspec` and `ours` only decode, with either.
        scratch: Where files may be put.
    """
    (file,) = load.write_to(scratch)
    out = scratch / "msgspec.out"
    command = [sys.executable, "-m", "benchmarks.peers.plain_msgspec", style, str(file), str(out)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    if style == "loop":
        _check(load, out.read_bytes(), "plain msgspec")
    return load.messages / float(told.stdout)


@contextmanager
def plain_uvicorn() -> Iterator[str]:
    """A null handler on uvicorn; gives its address."""
    command = [sys.executable, "-m", "benchmarks.peers.plain_uvicorn"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def bytewax(load: Load, workers: int, scratch: Path, flow: str = "") -> float:
    """Messages a second of Bytewax, its recovery on, in *workers* processes.

    Args:
        load: What it is given.
        workers: Processes.
        scratch: Where files may be put.
        flow: Name of the dataflow, if the application has several.

    Raises:
        RuntimeError: It gave other results than are due.
    """
    directory = scratch / "bytewax"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    named = []
    for name, data in zip(_INPUTS[load.name], load.inputs, strict=True):
        for number, part in enumerate(streams.parts(data, workers)):
            (directory / f"{name}.{number}").write_bytes(part)
        named.append(f"{name}={directory / name}")
    module = ["-m", "benchmarks.peers.bytewax_flow", flow or load.name, str(workers)]
    paths = [str(directory / "recovery"), str(directory / "out"), *named]
    inherited = {**os.environ, "PYTHONPATH": f"{BENCHMARKS.parent}:{BENCHMARKS.parent}/runtime"}
    told = subprocess.run(
        [str(environment()), *module, *paths],
        check=True, stdout=subprocess.PIPE, text=True, env=inherited,
    )  # fmt: skip
    outputs = b"".join(file.read_bytes() for file in sorted(directory.glob("out.*")))
    if flow == "joining":  # it has an output for each message of either side
        outputs = outputs[len(outputs) // 2 :]
    # it reads its inputs in an order of its own: some orders meet no quote yet
    _check(load, outputs, "Bytewax", slack=0.1 if load.name == "market_spread" else 0.0)
    return load.messages / float(told.stdout.split()[-1])  # workers tell of their connections


def _check(load: Load, outputs: bytes, who: str, slack: float = 0.0) -> None:
    found = len(outputs) if load.unit == "bytes" else outputs.count(b"\n")
    if abs(found - load.outputs) > slack * load.outputs:
        msg = f"{who} gave {found:,} {load.unit} of {load.name}, and {load.outputs:,} are due"
        raise RuntimeError(msg)
