"""The tests follow the tree: a test module is where, and named as, what it tests."""

from __future__ import annotations

from tests.helpers import ROOT

TESTS, RUNTIME = ROOT / "tests", ROOT / "runtime" / "wallaroo"
ACROSS_MODULES = {
    "api/test_names.py": "the names that an application imports, from every module",
    "connectors/tcp/test_tls.py": "TLS of sources and sinks",
    "connectors/test_missing_extras.py": "connectors without their optional packages",
    "connectors/test_kills.py": "a gateway with all kinds of sinks that is killed",
    "connectors/test_toy.py": "a connector that the runtime does not have",
    "connectors/http/test_memory.py": "what requests take of a gateway's memory",
    "dashboard/test_page.py": "the page, which is not Python",
    "dashboard/test_pausing.py": "pausing over HTTP, from the request to the run",
    "dashboard/test_states.py": "the page in every state, which is not Python",
    "dataflow/test_async_steps.py": "async steps, from the model to both stages",
    "dataflow/test_batched_steps.py": "batched steps, from the model to both stages",
    "dataflow/test_dead_letters.py": "failed messages, from the first stage to the report",
    "dataflow/test_graphs.py": "what is saved of any object and loaded again",
    "dataflow/test_joins.py": "joins of all kinds in both stages",
    "dataflow/test_odd_keys.py": "unusual keys in both stages",
    "dataflow/test_odd_states.py": "unusual state classes in both stages",
    "dataflow/test_plain_python.py": "unusual user code in both stages",
    "dataflow/test_serialization.py": "an application's own serialization in both stages",
    "dataflow/test_windows.py": "windows of all kinds in both stages",
    "engine/realtime/test_exactly_once.py": "a real-time query that is cut off at any moment",
    "engine/realtime/test_processes.py": "the processes of a real-time query, killed and poisoned",
    "gateway/internal_api/test_tls.py": "TLS of server and clients",
    "gateway/log/test_crashes.py": "a log whose machine ends, on a simulated disk",
    "gateway/log/test_damage.py": "a log whose bytes are changed, from its files to its readers",
    "gateway/log/test_full_disk.py": "a log on a full disk",
    "gateway/log/test_kills.py": "a log whose process is killed",
    "gateway/test_cost.py": "the gateway's system calls for one message",
    "gateway/test_full_disk.py": "the gateway as a process on a full disk",
    "gateway/test_kills.py": "the gateway as a process that is killed",
    "gateway/test_slow_disk.py": "the gateway as a process on a disk whose syncs take long",
    "gateway/test_truncated.py": "a log that was cut, from its files to a start",
    "model/keys/test_odd_keys.py": "unusual keys, from their class to their bucket",
}
"""Test modules that test several modules of their folder, and what of them."""


def modules() -> dict[str, str]:
    """Test modules in folders that mirror one of the runtime, with what they should test."""
    return {
        str(file.relative_to(TESTS)): file.stem.removeprefix("test_")
        for file in TESTS.glob("*/**/test_*.py")
        if (RUNTIME / file.parent.relative_to(TESTS)).is_dir()
    }


def has_subject(test: str, subject: str) -> bool:
    """Whether the folder has a module or package *subject*, or of which that is an aspect."""
    folder = RUNTIME / test.rpartition("/")[0]
    names = {file.stem for file in folder.iterdir() if file.suffix == ".py" or file.is_dir()}
    return any(subject == name or subject.startswith(f"{name}_") for name in names)


def test_every_test_module_is_in_the_folder_of_what_it_tests() -> None:
    found = modules()
    assert len(found) > len(ACROSS_MODULES)
    misplaced = {test for test, subject in found.items() if not has_subject(test, subject)}
    assert misplaced == {*ACROSS_MODULES}
