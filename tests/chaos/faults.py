"""The faults, each a function that does its harm to a running system and takes it back."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from tests.chaos.groups import Fault, Group
from tests.chaos.system import GO_ON, KILL, PATIENCE_S, STOP, System
from wallaroo.client import Sender
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.log.records import HEADER
from wallaroo.gateway.log.scan import scan
from wallaroo.gateway.log.segments import HEAD_BYTES, parsed_head
from wallaroo.wire.acknowledged import PAYLOADS

STOP_S = 3.0
"""How long what is stopped stands still, and what is full stays so."""
SLOW_S = 20.0
"""How long a receiver is slow."""
FLOOD_TIMES = 10
"""How many times faster than the engine a flood is."""
FLOOD_BYTES = 4096
_LONGEST = 16 * 1024**2
"""Bytes of the longest frame that a source takes."""
GATEWAY_BYTES = 1024**3
"""Memory that a gateway takes at most, whatever comes."""
GATEWAY_PLACES = (
    "log-before-write",
    "log-after-write",
    "log-after-sync",
    "outbox-after-publish",
    "sink-in-mid-delivery",
)


def killing(kind: str) -> Fault:
    """One process of a kind is killed."""

    def kill(system: System, chance: random.Random) -> bool:
        pids = system.started(kind)
        if pids:
            system.signal(KILL, chance.choice(pids))
        return bool(pids)

    return kill


def stopping(kind: str, seconds: float, *, one: bool = False) -> Fault:
    """All processes of a kind stand still, or *one* of them."""

    def stop(system: System, chance: random.Random) -> bool:
        pids = system.started(kind)
        if one and pids:
            pids = [chance.choice(pids)]
        system.signal(STOP, *pids)
        time.sleep(seconds)
        system.signal(GO_ON, *pids)
        return bool(pids)

    return stop


def killing_at(place: str) -> Fault:
    """The process that reaches *place* is killed there."""
    return lambda system, _chance: system.reach(place)


def kill_everything(system: System) -> None:
    """Kill all processes of the application."""
    kinds = ("driver", "gateway", "java", "reader", "worker")
    system.signal(KILL, *(pid for kind in kinds for pid in system.processes(kind)))


def _kill_everything(system: System, _chance: random.Random) -> bool:
    kill_everything(system)
    return True


def _full_disk(kind: str) -> Fault:
    """No file of the process may grow: what it writes fails, until it may again."""

    def fill(system: System, _chance: random.Random) -> bool:
        pids = system.processes(kind)[:1]
        with contextlib.suppress(ProcessLookupError):
            for pid in pids:
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
                time.sleep(STOP_S)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
            return bool(pids)
        return False

    return fill


def _torn_write(system: System, chance: random.Random) -> bool:
    """The gateway dies, and what it wrote last is half there."""
    give_up = time.monotonic() + PATIENCE_S
    while not system.processes("gateway") and time.monotonic() < give_up:
        time.sleep(0.05)  # the fault before may have killed it
    driver = system.processes("driver")
    system.signal(STOP, *driver)  # or it would start the next gateway at once
    try:
        gateway = system.processes("gateway")
        system.signal(KILL, *gateway)
        log = system.gateway_files / LOG
        if gateway and log.exists():
            segment, end = _end_of(log)
            with segment.open("rb+") as file:
                file.seek(end)
                file.write(chance.randbytes(chance.randint(1, 40_000)))
        return bool(gateway)
    finally:
        system.signal(GO_ON, *driver)


def _end_of(log: Path) -> tuple[Path, int]:
    """The last segment of a log, and where its last record ends."""
    segment = max(log.glob("log-*"))
    head = parsed_head(segment.read_bytes(), segment)
    assert head is not None
    end = head.address
    for record in scan(log):
        end = record.address + HEADER.size + len(record.payload)
    return segment, end - head.address + HEAD_BYTES


def _receiver(manner: str) -> Fault:
    def behave(system: System, _chance: random.Random) -> bool:
        system.receiver.manner = manner
        system.receiver.hang_up()
        time.sleep(STOP_S if manner != "slow" else SLOW_S)
        system.receiver.manner = "good"
        system.receiver.hang_up()
        return True

    return behave


def _receiver_breaks(system: System, _chance: random.Random) -> bool:
    for _ in range(10):
        system.receiver.hang_up()
        time.sleep(0.1)
    return True


def _connected(system: System) -> socket.socket | None:
    with contextlib.suppress(OSError):
        return socket.create_connection(("127.0.0.1", system.port), 5.0)
    return None


def _byte_at_a_time(system: System, _chance: random.Random) -> bool:
    connection = _connected(system)
    if connection is None:
        return False
    with connection, contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in PAYLOADS.frame(b"- a message that the decoder drops"):
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
    return True


def _idle_connections(system: System, _chance: random.Random) -> bool:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.ExitStack() as stack:
        opened = 0
        for _ in range(min(5_000, most // 2)):
            connection = _connected(system)
            if connection is not None:
                stack.enter_context(connection)
                opened += 1
        time.sleep(STOP_S)
    return opened > 0


def _garbage(system: System, chance: random.Random) -> bool:
    for _ in range(50):
        connection = _connected(system)
        if connection is not None:
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"\xff" + chance.randbytes(chance.randint(1, 5_000)))
    return True


def _hostile_sizes(system: System, chance: random.Random) -> bool:
    """Frames that claim to be as long as may be, or longer, and of which little comes."""
    opened = 0
    with contextlib.ExitStack() as stack:
        for length in [2**32 - 1, 2**31, _LONGEST + 1, _LONGEST, _LONGEST - 1] * 20:
            connection = _connected(system)
            if connection is not None:
                stack.enter_context(connection)
                opened += 1
                with contextlib.suppress(OSError):
                    connection.sendall(length.to_bytes(4) + bytes(chance.randint(0, 5_000)))
        time.sleep(STOP_S)
        _check_memory(system, "by sizes")
    return opened > 0


def _check_memory(system: System, how: str) -> None:
    for pid in system.processes("gateway"):
        size = _resident_bytes(pid)
        if size > GATEWAY_BYTES:
            system.problems.append(f"the gateway grew to {size} bytes {how}")


def _flood(system: System, chance: random.Random) -> bool:
    """Messages, each of which takes the engine a while, as fast as they go; then they have to wait.

    Tells whether they came, until the journal was full, so many times faster than the engine takes
    them as a flood does.
    """
    name, padding = f"slow{chance.getrandbits(40):x}", bytes(FLOOD_BYTES)
    sent, waited_s, before = 0, 0.0, system.ledger.received
    begun = time.monotonic()
    with Sender(system.address, name, timeout_s=PATIENCE_S) as sender:
        while (elapsed := time.monotonic() - begun) < system.flood_s:
            message = b"%s %s" % (system.ledger.next(f"{name}k{sent % 50}"), padding)
            sent += 1
            asked = time.monotonic()
            sender.send(message)
            waited = time.monotonic() - asked
            waited_s += waited if waited > 0.01 else 0.0
        taken = (system.ledger.received - before) / elapsed
        offered = sent / max(elapsed - waited_s, 0.001)
        _check_memory(system, "in a flood")
    return offered > FLOOD_TIMES * taken


def _resident_bytes(pid: int) -> int:
    """Memory of a process at its most."""
    told = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in told.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def _bad_message(message: bytes) -> Fault:
    """A message that is to become one dead letter, no more and no less."""

    def send(system: System, chance: random.Random) -> bool:
        before = system.dead_letters()
        with Sender(system.address, f"b{chance.getrandbits(40):x}", timeout_s=120.0) as sender:
            sender.send(message)
        give_up = time.monotonic() + PATIENCE_S
        while (after := system.dead_letters()) == before and time.monotonic() < give_up:
            time.sleep(0.2)
        if after != before + 1:
            system.problems.append(f"{message!r} made {after - before} dead letters")
        return True

    return send


def _clock_goes_back(system: System, chance: random.Random) -> bool:
    """The clock of gateway, driver and workers jumps: some hours back, and on again."""
    clock = system.faults / "clock"
    for offset_s in (-3600 * chance.randint(1, 24), 0):
        fresh = system.faults / "new"
        fresh.write_text(str(offset_s))
        fresh.rename(clock)
        time.sleep(STOP_S)
    clock.unlink()
    return True


_COMMON: Mapping[str, Fault] = {
    "kill a worker": killing("worker"),
    "kill the gateway": killing("gateway"),
    "kill the driver": killing("driver"),
    "kill Spark's Java": killing("java"),
    "kill everything at once": _kill_everything,
    "stop the workers for 3 s": stopping("worker", STOP_S),
    "stop the gateway for 3 s": stopping("gateway", STOP_S),
    "stop the driver for 3 s": stopping("driver", STOP_S),
    "stop Spark's Java for 3 s": stopping("java", STOP_S),
    **{f"kill at {place}": killing_at(place) for place in GATEWAY_PLACES},
    "kill at worker-in-user-code": killing_at("worker-in-user-code"),
    "disk full for the gateway": _full_disk("gateway"),
    "disk full for the checkpoint": _full_disk("java"),
    "torn last write of the log": _torn_write,
    "receiver closes at once": _receiver("slamming"),
    "receiver reads nothing, then is gone": _receiver("deaf"),
    "receiver of 1 kB/s": _receiver("slow"),
    "receiver's connection breaks ten times": _receiver_breaks,
    "sender of a byte at a time": _byte_at_a_time,
    "5,000 idle connections": _idle_connections,
    "connections with garbage": _garbage,
    "frames of hostile sizes": _hostile_sizes,
    "flood ten times faster than the engine": _flood,
    "message that kills its worker": _bad_message(b"!kill 1"),
    "message that hangs": _bad_message(b"!hang 1"),
    "message that takes the alarm and hangs": _bad_message(b"!alarm"),
    "message that does not decode": _bad_message(b"nonsense"),
    "clock stepped backwards": _clock_goes_back,
}
COMMON = Group(_COMMON)
"""Those of every application."""
