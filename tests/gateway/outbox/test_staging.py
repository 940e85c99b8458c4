"""Any interleaving of engines and epochs: nothing is lost, doubled, or kept for nothing."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.gateway.harness import outputs
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.outbox.staging import StateChange
from wallaroo.wire.records import Tally

RUNS = st.sampled_from(["one", "two"])
EPOCHS = st.integers(0, 3)
TOKENS = st.sampled_from("abc")


class Staging(RuleBasedStateMachine):
    """Two runs stage and publish a few epochs, in any order, with repeats and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self._outbox = self._opened()
        self._calls = 0
        self._made: dict[str, tuple[str, int, str, bytes]] = {}
        """Calls by name."""
        self._staged: defaultdict[tuple[str, int, str], list[bytes]] = defaultdict(list)
        """What can be published, by run, epoch and token."""
        self._published = {"one": -1, "two": -1}
        """The last published epoch of each run."""
        self._sent: list[bytes] = []
        """What must leave, in order."""
        self._changed: dict[str, list[tuple[int, bytes]]] = {"one": [], "two": []}
        """Published changes of each run by epoch: within an epoch, in the order of staging."""

    def _opened(self) -> Outbox:
        return Outbox(Path(self._directory.name, "outbox.db"), 1 << 20)

    @rule(run=RUNS, epoch=EPOCHS, token=TOKENS)
    def stage(self, run: str, epoch: int, token: str) -> None:
        self._calls += 1
        call, output = f"call {self._calls}", b"%d" % self._calls
        self._made[call] = run, epoch, token, output
        self._stage(call)
        if epoch > self._published[run]:
            self._staged[run, epoch, token].append(output)

    @precondition(lambda self: self._made)
    @rule(data=st.data())
    def repeat_a_call(self, data: st.DataObject) -> None:
        """A call whose answer was lost is repeated while its report is there."""
        call = data.draw(st.sampled_from(sorted(self._made)))
        run, epoch, token, output = self._made[call]
        if output in self._staged[run, epoch, token] or epoch <= self._published[run]:
            self._stage(call)

    def _stage(self, call: str) -> None:
        """Stage an output, and a change of state that is equal to it."""
        run, epoch, token, output = self._made[call]
        change = StateChange("state", 7, output)
        tally = Tally(set_aside=1)
        self._outbox.stage(run, epoch, token, [outputs(output)], tally, call, [change])

    @rule(run=RUNS, epoch=EPOCHS, tokens=st.lists(TOKENS, unique=True))
    def publish(self, run: str, epoch: int, tokens: list[str]) -> None:
        chosen = [self._staged[run, epoch, token] for token in tokens]
        if epoch <= self._published[run]:
            assert self._outbox.publish(run, epoch, tokens) is None
            return
        if not all(chosen):
            with pytest.raises(LookupError, match="nothing is staged"):
                self._outbox.publish(run, epoch, tokens)
            return
        tally = self._outbox.publish(run, epoch, tokens)
        assert tally is not None
        assert tally.set_aside == sum(map(len, chosen))
        self._sent += [output for made in chosen for output in made]
        self._published[run] = epoch
        self._changed[run] += [
            (epoch, output)
            for output in sorted((output for made in chosen for output in made), key=int)
        ]
        for of, number, token in list(self._staged):
            if of == run and number <= epoch:
                del self._staged[of, number, token]

    @rule()
    def change_drivers(self) -> None:
        self._outbox.forget_staged()
        self._staged.clear()
        self._made.clear()

    @rule(run=RUNS, epoch=EPOCHS)
    def forget_changes(self, run: str, epoch: int) -> None:
        self._outbox.forget_changes(run, epoch)
        self._changed[run] = [made for made in self._changed[run] if made[0] > epoch]

    @rule()
    def restart(self) -> None:
        self._outbox.close()
        self._outbox = self._opened()

    @invariant()
    def what_leaves_is_what_was_published(self) -> None:
        found: list[bytes] = []
        position = 0
        while (delivery := self._outbox.next(0, position, 0.0)) is not None:
            found.append(delivery.outputs.data)
            position = delivery.position
        assert found == self._sent

    @invariant()
    def changes_are_published_with_outputs(self) -> None:
        for run, changed in self._changed.items():
            blocks = self._outbox.changes(run, -1)
            found = [(epoch, change) for block in blocks for epoch, *_, change in block]
            assert found == changed

    @invariant()
    def nothing_else_is_kept(self) -> None:
        waiting = sum(map(len, self._staged.values()))
        assert self._count("staged") == len(self._sent) + waiting
        assert self._count("change") == sum(map(len, self._changed.values())) + waiting

    def _count(self, table: str) -> int:
        (count,) = self._outbox._database.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)

    def teardown(self) -> None:
        self._outbox.close()
        self._directory.cleanup()


TestStaging = Staging.TestCase
TestStaging.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
