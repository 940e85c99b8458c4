"""A clock that functions of tested applications move on, as if they took that time."""

from __future__ import annotations

import pytest

from wallaroo.history import step_times

_NOW = {"all": 0, "processor": 0}


def spend(microseconds: float, *, waiting: float = 0, threads: int = 1) -> None:
    """Take processor time in each of some threads, and then wait."""
    _NOW["all"] += int(1_000 * (microseconds + waiting))
    _NOW["processor"] += int(1_000 * microseconds * threads)


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let times be measured with this clock, in processes that are forked from now on, too."""
    monkeypatch.setattr(step_times, "perf_counter_ns", lambda: _NOW["all"])
    monkeypatch.setattr(step_times, "process_time_ns", lambda: _NOW["processor"])
