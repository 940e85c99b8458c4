"""Memory of a gateway that takes messages which nobody processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks import streams
from benchmarks.ends import connected
from benchmarks.loads import APPS
from wallaroo.gateway.internal_api.client import GatewayClient

_PIECE = 100_000
_PATIENCE_S = 60.0


def peak_memory_mb(messages: int, scratch: Path) -> float:
    """Peak resident memory of a gateway, in MB, with *messages* of backlog."""
    location = f"unix:{scratch}/gateway.sock"
    command = [
        *(sys.executable, "-m", "wallaroo", "gateway", str(APPS / "market_spread")),
        *("--child", "--state-dir", str(scratch / "backlog"), "--listen", location),
        *("--log-level", "error", "--"),
        *("--in", "127.0.0.1:0,127.0.0.1:0", "--out", "127.0.0.1:1"),
    ]
    gateway = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert gateway.stdout is not None
    ready = json.loads(gateway.stdout.readline())
    quotes = streams.market_data(streams.symbols(), _PIECE, 7)
    with connected(ready["sources"][1]["where"]) as sender:
        for _ in range(messages // _PIECE):
            sender.sendall(quotes)
    client = GatewayClient(location)
    if not client.wait_until_accepted("Market Data", messages, _PATIENCE_S):
        msg = f"{client.status().backlog:,} of {messages:,} messages were accepted"
        raise RuntimeError(msg)
    status = Path(f"/proc/{gateway.pid}/status").read_text()
    gateway.terminate()
    gateway.wait()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
