"""Messages that leave an entity that cannot be saved: found, and set aside; the others count."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import wallaroo
from tests.dataflow.harness import chunks
from tests.dataflow.single_bucket import Engine
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.results import TaskResults
from wallaroo.errors import RuntimeFailure
from wallaroo.model.application import Application
from wallaroo.observability import log_channel
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate


@pytest.fixture(autouse=True, scope="module", params=[None, 1], ids=["in memory", "spilled"])
def _memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """Entities stay in memory, or all of them leave it between batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "limit_bytes", request.param)
        yield


class Node:
    def __init__(self, behind: Any) -> None:
        self.next = behind


class Parts:
    def __init__(self) -> None:
        self.held: dict[str, Any] = {}


class Seen:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.parts = Parts()
        self.me = self


class Locked(Seen):
    """Cannot be saved from the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Touchy:
    """Cannot be loaded again."""

    def __setstate__(self, state: Any) -> None:
        msg = "not this one"
        raise ValueError(msg)

    def __getstate__(self) -> dict[str, Any]:
        return {"a": 1}


class Killing:
    """Ends the process that saves it."""

    def __reduce__(self) -> Any:
        import os

        os._exit(0)


@wallaroo.decoder(header_length=2, length_fmt=">H")
def decode(payload: bytes) -> str:
    return payload.decode()


def spoil(seen: Any, what: str) -> None:
    if what == "lock":
        seen.lock = threading.Lock()
    elif what == "nested":
        seen.parts.held["key"] = [0, lambda: 0]
    elif what == "deep":
        seen.head = None
        for _ in range(200_000):
            seen.head = Node(seen.head)
    elif what == "touchy":
        seen.touchy = Touchy()
    elif what == "killing":
        seen.killing = Killing()
    elif what == "raise":
        seen.lock = threading.Lock()
        raise ValueError(what)


def note(text: str, seen: Seen) -> tuple[str, bool]:
    key, _, what = text.partition(" ")
    seen.texts.append(what)
    spoil(seen, what)
    return f"{key}{len(seen.texts)}", what != "unsaved"


class Gathered(wallaroo.Aggregation[str, Any, str]):
    def initial_accumulator(self) -> Any:
        return Seen()

    def update(self, message: str, accumulator: Any) -> None:
        note(message, accumulator)

    def combine(self, one: Any, other: Any) -> Any:
        one.texts += other.texts
        return one

    def output(self, key: str, accumulator: Any) -> str:
        return f"{key}{accumulator.texts}"


def application(kind: Any = Seen, step: Any = note) -> Application:
    builder = wallaroo.ApplicationBuilder("checked")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    step = wallaroo.state_computation(name="note")(step)
    builder.to_state_partition(step, kind, "seen", wallaroo.partition(lambda text: text[0]))
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode)))
    return resolve(builder.build())


def first_letter(text: str) -> str:
    return text[0]


def windowed() -> Application:
    source = wallaroo.source("p", wallaroo.TCPSourceConfig("", 0, decode))
    windows = wallaroo.count_windows(6).over(Gathered)
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode))
    keyed = source.key_by(first_letter)
    return resolve(wallaroo.build_application("checked", keyed.to(windows).to_sink(sink)))


FIRST = ["a", "b", "a x", "c"]
SECOND = [
    *("a", "a lock", "b", "c nested", "a", "d deep", "d", "b raise", "b lock", "b", "e touchy"),
    *("a lock", "a y", "c", "f lock"),
]
SPOILT = {
    "a lock": "state.lock cannot be saved: TypeError: cannot pickle '_thread.lock' object",
    "c nested": "state.parts.held['key'][1] cannot be saved: <lambda> is defined inside",
    "d deep": "cannot be saved: RecursionError",
    "b raise": "state.lock cannot be saved",
    "b lock": "state.lock cannot be saved",
    "e touchy": "the entity, of class Seen, can be saved but not loaded: ValueError: not",
    "f lock": "state.lock cannot be saved",
}


def test_messages_that_spoil_their_entity_are_set_aside_as_simulated() -> None:
    engine = Engine(application())
    engine.batch(FIRST)
    engine.batch(SECOND)
    engine.batch(["a", "d", "f"])
    every = [*FIRST, *SECOND, "a", "d", "f"]
    due = simulate(engine.application, [("p", text.encode()) for text in every])
    spoiling = [text for text in SECOND if text in SPOILT]
    assert [message for _, _, message, _ in due.set_aside] == spoiling
    texts: dict[str, list[str]] = {}
    for text in every:
        if text not in SPOILT:
            texts.setdefault(text[0], []).append(text[2:])
    assert {key: one.texts for key, one in due.state["seen"].items() if one.texts} == texts
    assert {key: found for key, found in engine.state().items() if found} == texts
    assert sorted(engine.outputs) == sorted(due.outputs)
    assert engine.tries == 4
    letters = engine.tally.letters
    assert sorted(f"Unsavable: {error}"[:300] for *_, error in due.set_aside) == sorted(
        letter.error[:300] for letter in letters
    )
    assert sorted(eval(letter.message) for letter in letters) == sorted(spoiling)
    for letter in letters:
        assert letter.step == "note"
        assert letter.place.startswith("test_entity_checks.py:")
        assert SPOILT[eval(letter.message)] in letter.error
        assert "state 'seen': " in letter.error
        assert letter.key == repr(eval(letter.message)[0])


def test_the_log_says_so_as_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(log_channel, "_write", said.append)
    Engine(application()).batch(["a", "a lock", "b lock"])
    (event,) = map(json.loads, said)
    assert (event["part"], event["level"], event["messages"]) == ("worker", "warning", 2)
    assert event["event"] == "messages leave entities that cannot be saved"
    assert "state.lock cannot be saved" in event["first"]


def test_an_entity_that_was_never_to_be_saved_need_not_be() -> None:
    engine = Engine(application(Locked))
    sent = ["a unsaved", "a unsaved", "b", "b unsaved"]
    engine.batch(sent)
    due = simulate(engine.application, [("p", text.encode()) for text in sent])
    assert sorted(engine.outputs) == sorted(due.outputs) == [b"a1", b"a2", b"b1"]
    assert [letter.message for letter in engine.tally.letters] == ["'b'"]
    assert [message for _, _, message, _ in due.set_aside] == ["b"]
    engine.batch(["a unsaved"])
    assert engine.state() == {}


def test_windows_go_back_to_what_they_were_as_simulated() -> None:
    engine = Engine(windowed())
    first, second = ["a 1", "b 1"], ["a lock", "a 2", "b lock", "a 3", "b 2", "b lock", "c lock"]
    third = ["a 4", "b 3", "b 4", "a 5", "a 6", "b 5", "b 6"]
    for batch in (first, second, third):
        engine.batch(batch)
    every = [("p", text.encode()) for text in first + second + third]
    due = simulate(engine.application, every)
    assert due.outputs == [b"%c['1', '2', '3', '4', '5', '6']" % key for key in b"ab"]
    assert sorted(engine.outputs) == due.outputs
    spoiling = [text for text in second if "lock" in text]
    assert [message for _, _, message, _ in due.set_aside] == spoiling
    assert sorted(eval(letter.message) for letter in engine.tally.letters) == sorted(spoiling)
    assert all("lock cannot be saved" in letter.error for letter in engine.tally.letters)


def test_a_message_whose_entity_ends_the_process_that_saves_it_is_set_aside() -> None:
    engine = Engine(application())
    engine.batch(["a", "b"])
    payloads = [("p", text.encode()) for text in ["a", "a killing", "b", "a"]]
    ((block,),) = chunks(engine.application, payloads, [0] * len(payloads))
    packed = Router(engine.program, TaskResults()).route(block)
    engine.run_task(packed, isolated=True)
    assert [letter.error for letter in engine.tally.letters] == [
        "SkippedCall: the call ended its process (exit code 0)"
    ]
    assert engine.state() == {"a": ["", "", ""], "b": ["", ""]}


@pytest.mark.parametrize("keys", [1, 300])
def test_any_number_of_such_messages_takes_one_more_try(keys: int) -> None:
    engine = Engine(application())
    sent = [f"{chr(200 + n % keys)} lock" for n in range(900)]
    engine.batch([text for pair in zip(sent, sent, strict=True) for text in (pair[0][0], pair[1])])
    assert engine.tries == 2
    assert len(engine.tally.letters) == 900
    assert sum(map(len, engine.state().values())) == 900


def application_with_parts() -> Application:
    """Its state gives a part of itself, twice; later steps may change that."""

    def give(text: str, seen: Seen) -> tuple[list[Any], bool]:
        seen.texts.append(text[2:])
        spoil(seen, text[2:])
        return [(text, seen.parts)] * 2, True

    def tag(message: tuple[str, Parts]) -> tuple[str, Parts]:
        text, parts = message
        if "tag" in text:
            parts.held["lock"] = threading.Lock()
        parts.held["tags"] = parts.held.get("tags", 0) + 1
        if "raise" in text:
            raise ValueError(text)
        return message

    def encode(message: tuple[str, Parts]) -> str:
        text, parts = message
        if "late" in text:
            parts.held["lock"] = threading.Lock()
        return f"{text} {parts.held['tags']}"

    builder = wallaroo.ApplicationBuilder("parts")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    step = wallaroo.state_computation_multi(name="give")(give)
    builder.to_state_partition(step, Seen, "seen", wallaroo.partition(lambda text: text[0]))
    builder.to(wallaroo.computation(name="tag")(tag))
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(encode)))
    return resolve(builder.build())


def test_a_later_step_that_spoils_an_entity_has_its_message_set_aside_as_simulated() -> None:
    engine = Engine(application_with_parts())
    first = ["a 1", "b tag", "a tag", "a 2", "c lock", "b late", "d tag raise", "d"]
    second = ["a 3", "a late", "b 1", "d", "a tag"]
    engine.batch(first)
    engine.batch(second)
    due = simulate(engine.application, [("p", text.encode()) for text in first + second])
    told = sorted((step, str(error)) for _, step, _, error in due.set_aside)
    assert [step for step, _ in told] == ["encoder"] * 4 + ["give"] + ["tag"] * 8
    assert all("parts.held['lock'] cannot be saved: TypeError" in error for _, error in told[:4])
    letters = sorted((letter.step, letter.error) for letter in engine.tally.letters)
    assert letters == [(step, f"Unsavable: {error}") for step, error in told]
    assert sorted(engine.outputs) == sorted(due.outputs)
    for texts in (engine.state(), {key: one.texts for key, one in due.state["seen"].items()}):
        assert {key: found for key, found in texts.items() if found} == {
            "a": ["1", "tag", "2", "3", "late", "tag"],
            "b": ["tag", "late", "1"],
            "d": ["tag raise", "", ""],
        }


def test_an_entity_that_the_message_of_another_spoils_fails_with_state_key_and_path() -> None:
    known: dict[str, Seen] = {}

    def meddle(text: str, seen: Seen) -> tuple[str, bool]:
        known[text[0]] = seen
        if text == "b meddle":
            spoil(known["a"], "lock")
        return text, True

    engine = Engine(application(step=meddle))
    with pytest.raises(RuntimeFailure, match=r"state 'seen', key 'a': state.lock cannot be saved"):
        engine.batch(["a", "b meddle"])


def fill(text: str, seen: Seen) -> tuple[str, bool]:
    """Let an entity grow by as many KiB as *text* says."""
    key, _, size = text.partition(" ")
    seen.texts.append("x" * (1024 * int(size)))
    return f"{key}{len(seen.texts)}", True


def test_a_message_after_which_its_entity_is_too_large_is_set_aside() -> None:
    engine = Engine(application(step=fill))
    engine.serializer.limit_bytes = 1024**2
    engine.batch(["a 700", "b 400"])  # more than the limit together
    engine.batch(["a 300", "a 500", "a 100", "b 500", "b 2048", "c 1500"])
    assert engine.tries == 3  # nothing but the sizes of single entities counts
    kept = {key: [len(one) // 1024 for one in texts] for key, texts in engine.state().items()}
    assert kept == {"a": [700, 300], "b": [400, 500]}
    told = {eval(letter.message): letter for letter in engine.tally.letters}
    assert told.keys() == {"a 500", "a 100", "b 2048", "c 1500"}
    assert "state 'seen': the entity takes 1.5 MiB when saved, and the limit is 1 MiB" in (
        told["a 500"].error
    )
    assert "the entity was restored" in told["a 500"].error
    assert told["a 500"].key == "'a'"
