"""Applications come from directories, files and modules; what does not load says why."""

from __future__ import annotations

import importlib
import pickle
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers import framing_of
from wallaroo.errors import ApplicationError, UsageError
from wallaroo.loading import loader
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application

APPLICATION = """\
import wallaroo

@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs

def application_setup(args):
    source = wallaroo.TCPSourceConfig("127.0.0.1", 0, decode)
    return wallaroo.ApplicationBuilder({name}).new_pipeline("p", source).done().build()
"""


def write(directory: Path, text: str, name: str = "application.py") -> Path:
    directory.mkdir(exist_ok=True, parents=True)
    file = directory / name
    file.write_text(text)
    return file


def named(name: str) -> str:
    return APPLICATION.format(name=repr(name))


def load(app: Path | str, *args: str) -> Application:
    return ApplicationRef(str(app), args).load()


def failure(app: Path | str) -> str:
    with pytest.raises(ApplicationError) as raised:
        load(app)
    return str(raised.value)


def test_a_directory_with_an_application_py_is_an_application(tmp_path: Path) -> None:
    write(tmp_path, named("from a directory"))
    assert load(tmp_path).name == "from a directory"


def test_a_python_file_is_an_application(tmp_path: Path) -> None:
    assert load(write(tmp_path, named("from a file"), "some_app.py")).name == "from a file"


def test_an_importable_module_is_an_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "loader_test_package", "", "__init__.py")
    write(tmp_path / "loader_test_package", named("from a module"), "app.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert load("loader_test_package.app").name == "from a module"


def test_arguments_reach_application_setup(tmp_path: Path) -> None:
    write(tmp_path, APPLICATION.format(name="' '.join(args)"))
    assert load(tmp_path, "--in", "x", "--flag").name == "--in x --flag"


def test_the_frame_limit_reaches_the_sources(tmp_path: Path) -> None:
    write(tmp_path, named("limited"))
    application = ApplicationRef(str(tmp_path), max_frame=77).load()
    assert framing_of(application.sources[0]).max_frame == 77


def test_two_applications_may_have_siblings_of_one_name(tmp_path: Path) -> None:
    text = "import codecs_of_mine\nimport parts_of_mine.part as part\n"
    text += APPLICATION.format(name="codecs_of_mine.NAME + part.NAME")
    for name in ("one", "two"):
        write(tmp_path / name, text)
        write(tmp_path / name, f"NAME = {name!r}", "codecs_of_mine.py")
        write(tmp_path / name / "parts_of_mine", "", "__init__.py")
        write(tmp_path / name / "parts_of_mine", f"NAME = {name.upper()!r}", "part.py")
    names = [load(tmp_path / app).name for app in ("one", "two", "one")]
    assert names == ["oneONE", "twoTWO", "oneONE"]


def test_a_module_of_the_same_name_from_elsewhere_is_not_taken_for_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "other", named("other"))
    write(tmp_path / "mine", named("mine"))
    monkeypatch.syspath_prepend(tmp_path / "other")
    monkeypatch.delitem(sys.modules, "application", raising=False)
    importlib.import_module("application")
    assert load(tmp_path / "mine").name == "mine"


def test_a_data_file_is_opened_by_its_bare_name(tmp_path: Path) -> None:
    text = "import pathlib\n" + APPLICATION.format(name="pathlib.Path('name.txt').read_text()")
    write(tmp_path, text)
    write(tmp_path, "from a data file", "name.txt")
    before = Path.cwd()
    assert load(tmp_path).name == "from a data file"
    assert Path.cwd() == before


def test_a_reference_pickles_and_is_absolute_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "app", named("relative"))
    monkeypatch.chdir(tmp_path)
    reference = pickle.loads(pickle.dumps(ApplicationRef("app").absolute()))
    monkeypatch.chdir("/")
    assert reference.load().name == "relative"


@pytest.mark.parametrize(
    "app", ["no/such/directory", "missing.py", "no_such_module", "no.such.module", "not a module"]
)
def test_what_is_not_there_is_a_usage_error(app: str) -> None:
    with pytest.raises(UsageError, match=r"no application found|does not exist"):
        load(app)


def test_a_directory_without_application_py_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no application\.py"):
        load(tmp_path)


def test_an_import_that_is_not_there_is_told_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, "import os\nimport no_such_library\n")
    told = failure(tmp_path)
    assert told.startswith("the application cannot be imported: ModuleNotFoundError")
    assert "'no_such_library'" in told
    assert "(application.py:2)" in told


def test_an_exception_on_import_is_told_with_the_line_that_raised(tmp_path: Path) -> None:
    write(tmp_path, "import helper_that_raises\n")
    write(tmp_path, "def f():\n    return {}['x']\nf()\n", "helper_that_raises.py")
    assert failure(tmp_path).endswith("KeyError: 'x' (helper_that_raises.py:2)")


def test_a_syntax_error_is_told_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, "import os\n\ndef broken(:\n    pass\n")
    told = failure(tmp_path)
    assert "SyntaxError: invalid syntax" in told
    assert "(application.py:3)" in told


def test_an_application_without_application_setup_is_told_so(tmp_path: Path) -> None:
    file = write(tmp_path, "def setup(args):\n    return None\n")
    assert failure(tmp_path) == f"{file} has no function application_setup(args)"


def test_an_exception_in_application_setup_is_told_with_the_line_that_raised(
    tmp_path: Path,
) -> None:
    write(tmp_path, "def application_setup(args):\n    ports = []\n    return ports[3]\n")
    assert failure(tmp_path) == (
        "application_setup raised IndexError: list index out of range (application.py:3)"
    )


def test_wrong_arguments_of_an_application_stay_a_usage_error(tmp_path: Path) -> None:
    text = "import wallaroo\ndef application_setup(args):\n"
    write(tmp_path, text + "    return wallaroo.tcp_parse_input_addrs(args)\n")
    with pytest.raises(UsageError, match="--in is missing"):
        load(tmp_path)


def test_an_application_that_is_not_well_formed_names_its_file(tmp_path: Path) -> None:
    text = named("open-ended").replace(".done()", "")
    write(tmp_path, text)
    assert "application.py:9: pipeline 'p' has no end" in failure(tmp_path)


def test_an_application_that_waits_for_something_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers, warned = list[threading.Timer](), dict[str, object]()

    class Timer(threading.Timer):
        def start(self) -> None:
            timers.append(self)

        def join(self, timeout: float | None = None) -> None:
            """It has not been started."""

    monkeypatch.setattr(threading, "Timer", Timer)
    warning = lambda event, **names: warned.update(names, event=event)  # noqa: E731
    monkeypatch.setattr(loader, "log", SimpleNamespace(warning=warning))
    monkeypatch.setitem(sys.modules, "timers", timers)
    waiting = "(passing := threading.Thread(target=timers[0].function)).start() or passing.join()"
    text = named("waits").replace("(args):\n", f"(args):\n    {waiting}\n")
    app = write(tmp_path, f"import threading, timers\n{text}")
    assert load(app).name == "waits"
    assert warned == {
        "event": "application is still loading",
        "app": str(app),
        "after_s": 10.0,
        "at": "application.py:9",
    }
