"""Which engines a test of a running application runs on: all of them, with the exceptions here."""

from __future__ import annotations

from wallaroo.engine.registry import DEFAULT

MICRO_BATCH, REAL_TIME = "micro-batch", "real-time"

ON_ONE: dict[str, tuple[str, str]] = {
    # what only one engine has
    "tests/golden/": (MICRO_BATCH, "the golden state directories are its own"),
    "tests/spark/test_realtime.py": (REAL_TIME, "what is peculiar to it"),
    "tests/spark/test_realtime_executors.py": (REAL_TIME, "what is peculiar to it"),
    "tests/spark/test_restart.py::test_a_run_outlives_the_processes_that_plan_its_batches": (
        MICRO_BATCH,
        "no process plans chunks",
    ),
    "tests/spark/test_workers.py::test_a_key_stays": (MICRO_BATCH, "a partition is a process"),
    "tests/spark/test_workers.py::test_all_stages": (MICRO_BATCH, "the daemon of its workers"),
    "tests/spark/test_copies.py::test_what_a_crash": (MICRO_BATCH, "the steps of its commit"),
    "tests/spark/test_copies.py::test_a_checkpoint_that": (MICRO_BATCH, "files of its checkpoint"),
    "tests/spark/test_copies.py::test_a_journal_that": (REAL_TIME, "the outbox has changes"),
    "tests/spark/test_copies.py::test_the_wallaroo": (DEFAULT, "a help text"),
    "tests/spark/test_interrupts.py::test_ctrl_c": (REAL_TIME, "the end of an epoch"),
    "tests/spark/test_interrupts.py::test_stopped": (MICRO_BATCH, "the end of a batch"),
    "tests/spark/test_repartition.py::test_a_batch": (MICRO_BATCH, "batches that are left over"),
    "tests/spark/test_repartition.py::test_state": (MICRO_BATCH, "its own check of partitions"),
    "tests/spark/test_state.py::test_the_state_of_a_killed": (
        REAL_TIME,
        "changes that are published and not in the state store",
    ),
    # what no engine has a part in
    "tests/chaos/": (DEFAULT, "the harness chooses"),
    "tests/cli/": (DEFAULT, "commands"),
    "tests/formats/test_apicurio.py": (DEFAULT, "the client of a registry"),
    "tests/kafka/test_word_count.py": (DEFAULT, "the connectors of the gateway"),
    "tests/spark/test_interrupts.py::test_a_": (DEFAULT, "signals before and beside the engine"),
    "tests/spark/test_logs.py::test_a_part_has": (DEFAULT, "levels of the log"),
    "tests/spark/test_logs.py::test_a_port": (DEFAULT, "the address of the dashboard"),
    "tests/spark/test_logs.py::test_a_run_goes_on": (DEFAULT, "the log of the driver"),
    "tests/spark/test_operations_page.py": (DEFAULT, "what is typed, and what commands do"),
    "tests/spark/test_session.py": (DEFAULT, "the session of the tests"),
    "tests/spark/test_tutorial.py": (DEFAULT, "what is typed, and what commands answer"),
    "tests/spark/test_workers.py::test_a_run_that": (DEFAULT, "the sockets of the gateway"),
    "tests/test_pythons.py": (DEFAULT, "what is installed"),
    "tests/test_wheel.py": (DEFAULT, "what is installed"),
}
"""By the beginning of its id, the one engine of a test, and the reason."""


def engines_of(test: str) -> list[str]:
    """The engines that the test with the id *test* runs on."""
    return next(([one] for start, (one, _) in ON_ONE.items() if test.startswith(start)), [DEFAULT])
