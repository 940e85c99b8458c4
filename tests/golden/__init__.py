"""State directories as this version leaves them, for every later version to open or to refuse.

`format-N/NAME.tar.gz` is a state directory of format N; `NAME.jsonl` and `NAME.pickle` are what
`wallaroo state export` gives of it, as far as JSON carries it. `python -m tests.golden.make` makes
those of the present format (see CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.engine.spark.checkpoint.epochs import last_commit
from wallaroo.engine.spark.checkpoint.reader import read_logs
from wallaroo.engine.stored import SavedState
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run.state.directory import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
PRESENT = HERE / f"format-{FORMAT}"
BUCKETS = 8
Sent = Sequence[tuple[str, bytes]]
Entity = tuple[str, Any, Any]
"""State, key and entity."""


class Golden(NamedTuple):
    """An application with a golden state directory."""

    application: ApplicationRef
    before: Sent
    """What the state directory is made of."""
    after: Sent
    """What a run that opens it goes on with."""


def _applied(name: str, sources: Sequence[str], before: str, after: str) -> Golden:
    def sent(texts: str) -> Sent:
        return [(source, text.encode()) for text in texts.split() for source in sources]

    module = "own_serialize" if name == "own" else "applications"
    reference = ApplicationRef(f"tests.golden.{module}", (name,))
    return Golden(reference, sent(before), sent(after))


def _joins() -> Golden:
    texts = ("<a0 >b0 <a1 >a1 <a4 <b1 >b1 <c0 >d0", "<b0 >a3 <a3 >a9 <a8 <a2 >b9 <b7 >c9 <d0")
    names = {"<": "Left", ">": "Right"}
    before, after = ([(names[one[0]], one[1:].encode()) for one in text.split()] for text in texts)
    return Golden(ApplicationRef("tests.golden.applications", ("joins",)), before, after)


def _odd_keys() -> Golden:
    from tests.golden.applications import KEYS

    before, after = ([("Keys", f"{name}, {n}".encode()) for name in KEYS] for n in (0, 1))
    return Golden(ApplicationRef("tests.golden.applications", ("keys",)), before, after)


ALL = {
    "plain": _applied("plain", ["Plain"], "a1 b1 a2 c1", "a3 b2 d1"),
    "states": _applied("states", ["Chained", "Beside"], "a1 b1 a2 cc2 bb2", "a1 cc3 b2 ddd1"),
    "windows": _applied("windows", ["Windows"], "a0 b0 a1 a1 b3", "a1 a2 a4 b3 b5 b9"),
    "sessions": _applied("sessions", ["Sessions"], "a0 b0 a1 a4 b3", "a2 a7 b8 b9 a1"),
    "joins": _joins(),
    "timers": _applied("timers", ["Timers"], "a0 b0 a1 c0 b9", "c1 a2 a9 c2 b9 b13"),
    "classes": _applied("classes", ["Classes"], "a1 b5 a2", "a4 b1 c9"),
    "own": _applied("own", ["Own"], "a0 b0 a0 a1 b2", "a1 a2 b2 b7"),
    "keys": _odd_keys(),
}
"""By name, what there is a golden state directory of."""


def entities(session: SparkSession, directory: Path, golden: Golden) -> list[Entity]:
    """The entities of the state in *directory*, as `wallaroo state` reads them."""
    program = Program(golden.application.load(), BUCKETS)
    serializer, checkpoint = EntitySerializer.of(program), directory / "checkpoint"
    commit = last_commit(checkpoint)
    assert commit is not None
    buckets = map(serializer.read, read_logs(session, checkpoint, commit.epoch))
    saved = SavedState(serializer, buckets, commit)
    found = list(saved.entities())
    assert not saved.unloaded, saved.unloaded
    return found
