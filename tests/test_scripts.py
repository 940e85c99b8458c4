"""The scripts of the repository, with stand-ins for the programs that they call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.terminal import Terminal

TOOLS = (
    *("bash", "cat", "cksum", "dirname", "env", "flock", "grep", "head", "mktemp", "rm", "sh"),
    *("mv", "sed", "stty", "tail", "timeout"),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree whose scripts can be called, and beside it `bin`, all programs that there are."""
    tree, programs = tmp_path / "tree", tmp_path / "bin"
    (tree / "scripts").mkdir(parents=True)
    programs.mkdir()
    for name in ("setup", "audit-warning", "cluster-tests"):
        shutil.copy2(ROOT / "scripts" / name, tree / "scripts" / name)
    for name in ("requirements.lock", "pyproject.toml"):
        (tree / name).touch()
    scala = tree / "runtime" / "wallaroo" / "engine" / "realtime" / "jvm"
    scala.mkdir(parents=True)
    (scala / "One.scala").touch()
    for name in TOOLS:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    program(programs, "id", "echo 0")
    program(programs, "apt-get", f'echo "$*" >>{tmp_path}/installed')
    return tree


def program(programs: Path, name: str, script: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)


def environment(tree: Path, **variables: str) -> dict[str, str]:
    return {"PATH": str(tree.parent / "bin"), "TMPDIR": str(tree.parent), **variables}


def call(
    tree: Path, script: str, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tree / "scripts" / script, *options],
        env=environment(tree, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def installed(tree: Path) -> bool:
    return (tree.parent / "installed").exists()


def test_setup_says_that_it_installs_system_packages(tree: Path) -> None:
    done = call(tree, "setup")
    said = "installing the system packages python3 python3-venv with apt-get (SETUP_APT=no refuses"
    assert said in done.stdout
    assert installed(tree)


def test_setup_installs_no_system_packages_if_that_is_refused(tree: Path) -> None:
    done = call(tree, "setup", SETUP_APT="no")
    assert done.returncode == 1
    assert "needs the system packages python3 python3-venv, and SETUP_APT=no refuses" in done.stderr
    assert not installed(tree)


@pytest.mark.parametrize(("answer", "agreed"), [("n", False), ("y", True), ("", True)])
def test_setup_asks_on_a_terminal(tree: Path, answer: str, agreed: bool) -> None:
    variables = {**os.environ, **environment(tree)}
    for name in ("CI", "PYTHON"):
        variables.pop(name, None)
    with Terminal(tree, variables) as terminal:
        terminal.type("/bin/sh scripts/setup")
        terminal.wait_for("install the system packages python3 python3-venv with apt-get")
        terminal.type(answer)
        terminal.wait_for("own Python is not 3.11" if agreed else "nothing was installed")
    assert installed(tree) == agreed


FOUND = "Found 1 known vulnerability in 1 package\\nName Version ID\\nlib 1.0 PYSEC-2026-1"


@pytest.fixture
def with_packages(tree: Path) -> Path:
    """The tree with all packages, but not yet the project itself."""
    programs = tree / ".venv" / "bin"
    programs.mkdir(parents=True)
    program(programs, "python", "exit 0")
    lock = subprocess.check_output(["cksum"], input=b"").decode()  # it is empty
    (tree / ".venv" / ".complete").write_text(f"{tree} {lock}")
    return tree


def warming_up(tree: Path, script: str) -> None:
    """Let `wallaroo warm-up` be *script*, and count its calls."""
    command = f'if [ $1 = warm-up ]; then echo x >>{tree.parent}/calls; {script}; fi; echo "0.1.0"'
    program(tree / ".venv" / "bin", "wallaroo", command)


def warm_ups(tree: Path) -> int:
    calls = tree.parent / "calls"
    return len(calls.read_text().splitlines()) if calls.exists() else 0


@pytest.mark.parametrize("failing", ["echo why; exit 1", "kill -9 $PPID; exit 1"])
def test_what_failed_or_was_killed_in_setup_is_tried_again_alone(
    failing: str, with_packages: Path
) -> None:
    warming_up(with_packages, failing)
    for times in (1, 2):
        done = call(with_packages, "setup")
        assert warm_ups(with_packages) == times
        if "kill" in failing:
            assert done.returncode == -9
        else:
            assert done.returncode == 0
            assert "that failed (all it told is in .venv/setup.log)" in done.stdout
            assert "the next call of make tries it again" in done.stdout
            assert "why" in (with_packages / ".venv" / "setup.log").read_text()
    warming_up(with_packages, "exit 0")
    assert call(with_packages, "setup").stdout.endswith("setup: .venv is up to date\n")
    assert call(with_packages, "setup").stdout == "setup: .venv is up to date\n"
    assert warm_ups(with_packages) == 3


def test_packages_are_not_downloaded_again_after_the_project_could_not_be_installed(
    with_packages: Path,
) -> None:
    python = with_packages / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\n[ "$2" != pip ]\n')  # pip fails
    for _ in range(2):
        done = call(with_packages, "setup")
        assert (done.returncode, done.stdout) == (1, "")
        assert "installing wallaroo itself failed" in done.stderr
    python.write_text("#!/bin/sh\nexit 0\n")
    warming_up(with_packages, "exit 0")
    assert call(with_packages, "setup").stdout.splitlines()[-1].startswith("setup: ready: 0.1.0")


def test_what_cannot_work_in_setup_is_not_tried_again(with_packages: Path) -> None:
    warming_up(with_packages, "echo 'Error: only Java 25 or newer'; exit 2")
    said = call(with_packages, "setup").stdout
    assert "not shared, so starts take longer: only Java 25 or newer\n" in said
    assert said.splitlines()[-1].startswith("setup: ready: 0.1.0 in ")
    assert call(with_packages, "setup").stdout == "setup: .venv is up to date\n"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        ("echo fine", "audit: no known vulnerabilities"),
        (f"printf '{FOUND}\\n'; exit 2", "lib 1.0 PYSEC-2026-1"),
        (f"printf '{FOUND}\\n'; exit 2", "WARNING: audit: the locked packages have known"),
        ("echo 'ERROR: no data'; echo 'make: *** [audit] Error 1'; exit 2", "skipped, ERROR: no d"),
        ("exec /bin/sleep 60", "audit: skipped, it was not done after 0.2 s"),
    ],
)
def test_an_audit_is_told_and_fails_nothing(tree: Path, make: str, said: str) -> None:
    program(tree.parent / "bin", "make", make)
    done = call(tree, "audit-warning", AUDIT_SECONDS="0.2" if "sleep" in make else "60")
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


@pytest.fixture
def ci(tree: Path) -> Callable[..., tuple[int, list[str]]]:
    """Calls `.ci/run` with stand-ins; its exit code, and all that they are called with."""
    called = tree.parent / "called"
    (tree / ".ci").mkdir()
    shutil.copy2(ROOT / ".ci" / "run", tree / ".ci" / "run")
    for name in ("postgresql", "audit-warning"):
        program(tree / "scripts", name, f'echo {name} >>{called}; [ {name} != "audit-warning" ]')
    program(tree / "scripts", "cluster-tests", f"echo cluster-tests $TESTBED >>{called}")

    def call(failing: str = "none", **variables: str) -> tuple[int, list[str]]:
        make = f'echo "make $*" >>{called}; [ "$*" != {failing} ]'
        program(tree.parent / "bin", "make", make)
        done = subprocess.run(
            ["bash", tree / ".ci" / "run"], env=environment(tree, **variables), check=False
        )
        return done.returncode, called.read_text().splitlines()

    return call


def test_ci_runs_all_and_a_failed_audit_fails_nothing(
    tree: Path, ci: Callable[..., tuple[int, list[str]]]
) -> None:
    assert ci() == (
        0,
        [
            *("postgresql", "make test", "make test-slow", "audit-warning", "make check"),
            f"cluster-tests {tree.parent}/shared/testbed/cluster",
        ],
    )


@pytest.mark.parametrize("failing", ["test", "test-slow", "check"])
def test_ci_goes_on_behind_what_fails_and_fails(
    ci: Callable[..., tuple[int, list[str]]], failing: str
) -> None:
    code, called = ci(failing, TESTBED="/opt/testbed")
    assert code == 1
    assert called[-1] == "cluster-tests /opt/testbed"


@pytest.mark.parametrize(
    ("testbed", "told"),
    [
        ("", "TESTBED names no program that makes a cluster"),
        ("/no/such", "there is no program /no/such (TESTBED)"),
    ],
)
def test_cluster_tests_that_cannot_run_say_so_in_the_last_line(
    tree: Path, testbed: str, told: str
) -> None:
    done = call(tree, "cluster-tests", TESTBED=testbed)
    assert (done.returncode, done.stdout) == (0, f"cluster tests: skipped, {told}\n")


@pytest.fixture
def testbed(tree: Path) -> Path:
    """A stand-in for the program that makes a cluster; the one for Python notes its options."""
    programs = tree / ".venv" / "bin"
    programs.mkdir(parents=True)
    program(programs, "wallaroo", "exit 0")
    # the part of the builds fails with BUILDS, the others with OTHERS
    code = 'case $3 in *test_build.py) exit "${BUILDS:-0}" ;; *) exit "${OTHERS:-0}" ;; esac'
    program(programs, "python", f'echo "$*" >>{tree.parent}/called; {code}')
    program(tree.parent, "testbed", 'if [ "$1" = n ]; then shift; exec "$@"; fi')
    return tree.parent / "testbed"


def test_cluster_tests_are_run_in_three_parts(tree: Path, testbed: Path) -> None:
    done = call(tree, "cluster-tests", TESTBED=str(testbed), HOME=str(tree.parent))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tree.parent / "called").read_text().splitlines() == [
        "-m pytest tests/cluster/test_build.py -m cluster --durations=0",
        "-m pytest tests/cluster/test_faults.py tests/cluster/test_kafka.py "
        "-m cluster --durations=0",
        "-m pytest tests/cluster --ignore=tests/cluster/test_build.py "
        "--ignore=tests/cluster/test_faults.py --ignore=tests/cluster/test_kafka.py "
        "-m cluster --durations=0",
    ]


@pytest.mark.parametrize(
    ("builds", "others", "options", "code"),
    [
        ("1", "0", (), 1),
        ("0", "1", (), 1),
        ("0", "5", (), 1),  # there are no tests
        ("0", "5", ("-k", "build"), 0),
        ("5", "0", ("-k", "kafka"), 0),
        ("5", "1", ("-k", "kafka"), 1),
    ],
)
def test_cluster_tests_fail_with_a_part_and_not_for_what_is_in_the_other(
    tree: Path, testbed: Path, builds: str, others: str, options: tuple[str, ...], code: int
) -> None:
    variables = {"TESTBED": str(testbed), "HOME": str(tree.parent)}
    done = call(tree, "cluster-tests", *options, BUILDS=builds, OTHERS=others, **variables)
    assert done.returncode == code, done.stderr


WALLAROO = """#!{python}
import pathlib, socket, sys

if sys.argv[1] == "new":
    made = pathlib.Path(sys.argv[2])
    made.mkdir()
    (made / "application.py").write_text('return f"{{total.name}}: {{total.amount}}\\n"')
    sys.exit()
options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
host, port = options["--in"].split(":")
connection, _ = socket.create_server((host, int(port))).accept()
host, port = options["--out"].split(":")
receiver = socket.create_connection((host, int(port)))
while connection.recv(12):
    text = pathlib.Path("application.py").read_text()
    if text.count('"') != 2:
        continue  # an edit is being written
    output = text.split('"')[1].replace("{{total.name}}", "apples").replace("{{total.amount}}", "3")
    receiver.sendall(output.encode().decode("unicode_escape").encode())
"""
"""Does what the stopwatch needs of `wallaroo`, without Spark."""


def test_the_stopwatch_runs_with_a_stand_in_for_wallaroo(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("scripts", ".venv/bin"):
        (tree / name).mkdir(parents=True)
    shutil.copy2(ROOT / "scripts" / "stopwatch.py", tree / "scripts")
    wallaroo = tree / ".venv" / "bin" / "wallaroo"
    wallaroo.write_text(WALLAROO.format(python=sys.executable))
    wallaroo.chmod(0o755)
    check_stopwatch(tree, tmp_path)


@pytest.mark.spark
def test_the_stopwatch_tells_the_seconds_until_an_output_and_of_an_edit(tmp_path: Path) -> None:
    check_stopwatch(ROOT, tmp_path)


def check_stopwatch(tree: Path, scratch: Path) -> None:
    """Run the stopwatch of *tree*, and check what it tells."""
    timed = subprocess.run(
        [sys.executable, tree / "scripts" / "stopwatch.py", "--here"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert timed.returncode == 0, timed.stdout + timed.stderr
    told = re.findall(r"^ *\d+\.\d s  (.*)$", timed.stdout, re.MULTILINE)
    edits = [f"edit {number}, to its output" for number in (1, 2, 3)]
    assert told == [
        *("wallaroo new", "wallaroo run, to the first output", *edits),
        "until the first output of one's own application",
        "from an edit to its output (median of 3)",
    ]
    assert not list(scratch.glob("stopwatch-*"))
