"""Memory that runs out: what the kernel kills, in a real control group, and what limits say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.memory_group import memory_group
from wallaroo.system import memory
from wallaroo.system.process_end import how_ended, what_to_do

_MIB = 1024**2
PARENT = """
import os, sys
from wallaroo.system.memory import MemoryKills, available_bytes, to_be_killed_first
from wallaroo.system.process_end import how_ended, what_to_do
sys.stdin.readline()
print(available_bytes())
held = b"x" * (40 << 20)  # more than what runs out of memory has by then
for end in ("allocates", "is killed"):
    kills = MemoryKills()
    child = os.fork()
    if not child:
        to_be_killed_first()
        if end == "is killed":
            os.kill(os.getpid(), 9)
        while True:
            held += b"x" * (1 << 20)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(how_ended(code, kills), "|", what_to_do(code, kills))
"""


def test_the_kernel_kills_the_worker_and_not_its_parent_and_it_is_told_why() -> None:
    with memory_group() as group:
        group.limit(96 * _MIB)
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT], stdin=-1, stdout=-1, stderr=-1, text=True
        )
        group.add(process.pid)
        told, problems = process.communicate("go\n", timeout=60)
        assert process.returncode == 0, problems
        assert group.kills == 1
    available, for_memory, for_another = told.splitlines()
    assert 48 * _MIB < int(available) <= 96 * _MIB
    assert for_memory.startswith(
        "was killed by SIGKILL because memory ran out | provide more memory"
    )
    assert for_another.startswith(
        "was killed by SIGKILL | the system does this when memory runs out"
    )


def test_a_limit_is_a_share_of_what_is_available_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 400 * _MIB)
    with memory.limited(0.5) as limit:
        assert limit == 200 * _MIB
        with pytest.raises(MemoryError):
            bytes(390 * _MIB)
        assert len(bytes(100 * _MIB)) == 100 * _MIB
    assert len(bytes(390 * _MIB)) == 390 * _MIB


def test_nothing_is_limited_where_the_kernel_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "_PROC", tmp_path)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    assert memory.available_bytes() is None
    with memory.limited(0.5) as limit:
        assert limit is None
    memory.to_be_killed_first()
    kills = memory.MemoryKills()
    assert not kills.found()
    assert how_ended(-9, kills) == "was killed by SIGKILL"
    assert "if that is the cause" in what_to_do(-9, kills)


@pytest.mark.parametrize(
    ("groups", "files", "available"),
    [
        (  # the second version, in a container
            "0::/",
            {"memory.stat": "inactive_file 7\n", "memory.max": "100\n", "memory.current": "60\n"},
            47,
        ),
        (  # the first version, whose limit is that of the group above
            "4:memory:/pods/one\n0::/",
            {
                "memory/pods/one/memory.stat": "total_inactive_file 5\n",
                "memory/pods/one/memory.limit_in_bytes": "9223372036854771712\n",
                "memory/pods/one/memory.usage_in_bytes": "10\n",
                "memory/pods/memory.stat": "total_inactive_file 5\n",
                "memory/pods/memory.limit_in_bytes": "90\n",
                "memory/pods/memory.usage_in_bytes": "50\n",
            },
            45,
        ),
        ("0::/user.slice", {"user.slice/memory.stat": "", "user.slice/memory.max": "max\n"}, 2048),
    ],
)
def test_the_least_of_all_limits_counts(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    groups: str,
    files: dict[str, str],
    available: int,
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 2 kB\n")
    for name, content in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    assert memory.available_bytes() == available
