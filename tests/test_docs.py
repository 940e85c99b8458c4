"""What the pages say of the source tree is true of it."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.helpers import ROOT

RUNTIME = ROOT / "runtime" / "wallaroo"
PAGES = sorted((*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"))
_MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*/[a-z_]+\.py)`")
_STEP = re.compile(r"^\| `([a-z_/]+\.py)` \| `([A-Za-z_.]+)` \|", re.MULTILINE)
_CONCERN = re.compile(r"^\| ([^|]+) \| (`[^|]+`) \|$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text()
    named = set() if "\nStatus: superseded" in text else set(_MODULE.findall(text))
    missing = {
        name
        for name in named
        if not any((at / name).exists() for at in (ROOT, RUNTIME, RUNTIME.parent))
    }
    assert not missing


def test_the_walk_through_the_code_names_functions_that_are_there() -> None:
    steps = _STEP.findall((ROOT / "docs" / "architecture.md").read_text())
    assert len(steps) > 10
    for file, function in steps:
        source = (RUNTIME / file).read_text()
        kind, _, method = function.partition(".")
        assert f"class {kind}" in source, file
        assert not method or f"def {method}(" in source, (file, function)


def test_the_tree_has_no_folder_that_contributors_are_not_told_of() -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text()
    tracked = subprocess.run(
        ["git", "ls-files", "runtime/wallaroo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    folders = {Path(file).parts[2] for file in tracked if len(Path(file).parts) > 3}
    assert {folder for folder in folders if f"      {folder}/" not in told} <= {"experimental"}


def test_the_map_of_concerns_names_modules_that_are_there() -> None:
    _, _, behind = (ROOT / "CONTRIBUTING.md").read_text().partition("| concern | module |\n")
    concerns = dict(_CONCERN.findall(behind.partition("\n\n")[0]))
    assert len(concerns) >= 30
    for concern, modules in concerns.items():
        for module in re.findall(r"`([^`]+)`", modules):
            assert (RUNTIME / module).exists(), (concern, module)


def test_operations_says_what_to_do_about_each_alert() -> None:
    rules = (ROOT / "helm" / "wallaroo" / "files" / "alerts.yaml").read_text()
    page = (ROOT / "docs" / "operations.md").read_text()
    alerts = re.findall(r"- alert: (\w+)", rules)
    assert alerts
    rows = re.findall(r'^\| <a id="(\w+)"></a>`(Wallaroo\w+)` \|', page, re.MULTILINE)
    assert rows == [(alert.lower(), alert) for alert in alerts]


def test_installation_lists_all_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "installation.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(extras["optional-dependencies"])


_LOADERS = {"load", "loads", "Unpickler", "read_pickle"}
_FORMATS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
_JAVA_LOADERS = ("ObjectInputStream", "JavaSerializer", "KryoSerializer", "readObject")


def unpickles(source: str) -> bool:
    """Whether a module names anything that loads pickles or marshalled objects."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in _LOADERS:
            formats = _FORMATS | ({"pandas", "pd"} if node.attr == "read_pickle" else set())
            if isinstance(node.value, ast.Name) and node.value.id in formats:
                return True
        if isinstance(node, ast.ImportFrom):
            names = {(node.module or "").split(".")[0], *(name.name for name in node.names)}
            if names & _FORMATS:
                return True
        if isinstance(node, ast.Import):
            if any(name.asname for name in node.names if name.name in _FORMATS):
                return True
            if any(name.name in _FORMATS - {"pickle", "marshal"} for name in node.names):
                return True
    return False


@pytest.mark.parametrize(
    "source",
    [
        "import pickle\nload = pickle.loads",
        "import pickle\nclass Own(pickle.Unpickler): pass",
        "from pickle import loads",
        "import pickle as other",
        "import cloudpickle",
        "import marshal\nmarshal.load(file)",
        "from pyspark import cloudpickle",
    ],
)
def test_every_way_to_unpickle_is_found(source: str) -> None:
    assert unpickles(source)
    assert not unpickles("import pickle, json\npickle.dumps(1), json.loads('1')")


def test_the_design_notes_name_every_module_that_unpickles() -> None:
    note = (ROOT / "docs" / "design" / "0015-unpickling.md").read_text()
    named = set(re.findall(r"^\| `([a-z_/]+\.py)` \|", note, re.MULTILINE))
    found = {
        str(path.relative_to(RUNTIME))
        for path in RUNTIME.rglob("*.py")
        if unpickles(path.read_text())
    }
    assert named == found


def test_no_module_in_scala_deserializes_objects() -> None:
    sources = list(RUNTIME.rglob("*.scala"))
    assert sources
    for path in sources:
        assert not [name for name in _JAVA_LOADERS if name in path.read_text()], path
