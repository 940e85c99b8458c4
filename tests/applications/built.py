"""An application of the builder with what came after it: an async step, timers and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import wallaroo
from tests.applications.gathering import Gathering
from wallaroo.api.builder import DeclaredApplication

SOURCE = "Texts"


class Seen:
    def __init__(self) -> None:
        self.texts: list[str] = []


class ByLetter:
    def partition(self, text: str) -> str:
        return text[0]


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.computation_async(name="ask", concurrency=10)
async def ask(text: str) -> str:
    return text


def silent(_timer: str, seen: Seen, timers: wallaroo.Timers) -> tuple[str, bool]:
    return f"{timers.key} was silent after {len(seen.texts)}", False


@wallaroo.state_computation(name="note", on_timer=silent, ttl=wallaroo.hours(1))
def note(text: str, seen: Seen, timers: wallaroo.Timers) -> tuple[str, bool]:
    seen.texts.append(text)
    timers.set_after(wallaroo.seconds(2))
    return text, True


class Together(Gathering[str, str]):
    def output(self, key: Any, accumulator: list[str]) -> str:
        return f"{key}: {', '.join(accumulator)}"


def application_setup(_args: Sequence[str]) -> DeclaredApplication:
    builder = wallaroo.ApplicationBuilder("Built")
    builder.new_pipeline(SOURCE, wallaroo.TCPSourceConfig("127.0.0.1", 0, decode))
    builder.to(ask)
    builder.to_state_partition(note, Seen, "seen", ByLetter())
    builder.to_windows(wallaroo.count_windows(3).over(Together()), "threes", ByLetter())
    builder.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 1, wallaroo.encoder(str.encode)))
    return builder.build()
