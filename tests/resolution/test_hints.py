"""Hints at code that is valid and probably a mistake."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import wallaroo
from tests.applications.gathering import Gathering
from wallaroo.resolution.application import resolve
from wallaroo.resolution.hints import hints_of

SOURCE = wallaroo.TCPSourceConfig(
    "", 0, wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
)


def hints(windowed: Any, encoder: Any) -> list[str]:
    step = wallaroo.count_windows(2).over(windowed)
    pipeline = wallaroo.source("texts", SOURCE).collect().to(step)
    sink = wallaroo.TCPSinkConfig("", 1, encoder)
    return [*hints_of(resolve(wallaroo.build_application("app", pipeline.to_sink(sink))))]


class Texts(Gathering[str, str]):
    def output(self, _key: Any, accumulator: list[str]) -> str:
        return " ".join(accumulator)


class Extended(Texts):
    def update(self, message: str, accumulator: list[str]) -> None:
        if not message:
            return
        accumulator.append(message)


class Returned(Texts):
    def update(self, message: str, accumulator: list[str]) -> list[str]:  # type: ignore[override]
        accumulator.append(message)
        return accumulator


class ReturnsOfMethod(Texts):
    def update(self, message: str, accumulator: list[str]) -> None:
        return accumulator.append(message)


class Concatenated(Texts):
    def update(self, message: str, accumulator: list[str]) -> Any:
        return [*accumulator, message]


class Counted(Texts):
    def initial_accumulator(self) -> Any:
        return 0


@dataclasses.dataclass
class Total:
    texts: int = 0


class Replaced(Texts):
    def initial_accumulator(self) -> Any:
        return Total()

    def update(self, _message: str, total: Any) -> Any:
        return dataclasses.replace(total, texts=total.texts + 1)


@wallaroo.encoder
def encode(text: str) -> bytes:
    return text.encode()


@wallaroo.encoder
def encode_nothing(text: str) -> Any:
    text.encode()


@wallaroo.encoder
def refuse(text: str) -> Any:
    raise ValueError(text)


@pytest.mark.parametrize("windowed", [Texts, Extended, Returned, ReturnsOfMethod])
@pytest.mark.parametrize("encoder", [encode, refuse, wallaroo.encoder(lambda text: text)])
def test_what_changes_its_accumulator_and_returns_outputs_is_not_hinted_at(
    windowed: Any, encoder: Any
) -> None:
    assert hints(windowed, encoder) == []


@pytest.mark.parametrize(
    ("windowed", "said"),
    [
        (Concatenated, "what update returns is ignored; let it change accumulator"),
        (Replaced, "what update returns is ignored; let it change total"),
        (Counted, "initial_accumulator returns 0, which update cannot change"),
    ],
)
def test_an_accumulator_that_stays_as_it_was_is_hinted_at(windowed: Any, said: str) -> None:
    (hint,) = hints(windowed, encode)
    assert f"pipeline 'texts', windows over {windowed.__name__}: {said}" in hint


def test_an_encoder_without_return_is_hinted_at() -> None:
    (hint,) = hints(Texts, encode_nothing)
    assert hint.endswith("encoder encode_nothing: it returns nothing; write return")
