"""Timers, times to live, retries and migrations keep the types from step to step."""

from typing import Any

import wallaroo
from wallaroo import Timers, minutes


class Count:
    calls = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> int:
    return int(payload)


@wallaroo.key_extractor
def key(number: int) -> int:
    return number


def called(name: str, count: Count, timers: Timers) -> str:
    return f"{name} {timers.key} {count.calls}"


@wallaroo.state_computation(name="remind", state=Count, on_timer=called, ttl=minutes(1))
def remind(number: int, count: Count, timers: Timers) -> None:
    timers.set_after(minutes(number))
    timers.set_after("soon")  # E: Argument 1 to "set_after"
    timers.set_at(0, 7)  # E: Argument 2 to "set_at"


@wallaroo.state_computation(name="idle", state=Count, ttl=minutes(1))
def idle(number: int, count: Count) -> bytes:
    return bytes(number + count.calls)


wallaroo.state_computation(name="idle", state=Count, ttl="1 min")  # E: No overload variant


@wallaroo.computation(name="ask", retry=wallaroo.retries(3, on=OSError))
def ask(number: int) -> list[int]:
    return [number]


wallaroo.computation(name="ask", retry=3)  # E: Argument "retry"


@wallaroo.migrate(Count, from_version=1)
def migrated(fields: dict[str, Any]) -> dict[str, Any]:
    return fields


source = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decode))
keyed = source.key_by(key)
reveal_type(keyed.to(remind))  # R: Pipeline[str]
reveal_type(keyed.to(idle))  # R: Pipeline[bytes]
reveal_type(source.to(ask))  # R: Pipeline[list[int]]
reveal_type(migrated({}))  # R: dict[str, Any]


def both_called(name: str, count: Count, timers: Timers) -> str | None:
    return name or None


@wallaroo.state_computation(name="both", state=Count, on_timer=both_called)
def both(number: int, count: Count, timers: Timers) -> bytes | None:
    return bytes(number)


def many_called(name: str, count: Count, timers: Timers) -> list[str]:
    return [name]


@wallaroo.state_computation_multi(name="many", state=Count, on_timer=many_called)
def many(number: int, count: Count, timers: Timers) -> list[bytes] | None:
    return None


@wallaroo.computation(name="either")
def either(output: bytes | str) -> int:
    return len(output)


@wallaroo.computation(name="only bytes")
def only_bytes(output: bytes) -> int:
    return len(output)


reveal_type(keyed.to(both))  # R: Pipeline[bytes | str]
reveal_type(keyed.to(many))  # R: Pipeline[bytes | str]
reveal_type(keyed.to(both).to(either))  # R: Pipeline[int]
keyed.to(both).to(only_bytes)  # E: has incompatible type "Computation[bytes, int]"
