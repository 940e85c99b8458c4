"""Loads the application that the argument APP of a command refers to.

APP is a directory with an `application.py`, a `.py` file, or an importable module. The directory of
the application is added to `sys.path`, so it can import modules from there. `application_setup`
runs with that directory as the current one, so it can open data files by name, as applications of
earlier Wallaroo versions do.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import importlib
import inspect
import os
import re
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import structlog

import wallaroo
from wallaroo.api import arguments
from wallaroo.api.places import Place, is_application, place_of
from wallaroo.errors import ApplicationError, UsageError, WallarooError
from wallaroo.loading import frozen_code
from wallaroo.loading.frozen_code import FrozenCode
from wallaroo.model.application import Application, Serialization
from wallaroo.resolution.application import resolve
from wallaroo.system.printable import printable
from wallaroo.user_code.exceptions import pass_interrupt
from wallaroo.wire.framing import DEFAULT_MAX_FRAME

_lock = threading.Lock()
_SLOW_S = 10.0
"""Seconds of loading after which a warning says where it is."""
_NOT_UTF_8 = re.compile(r"^\(unicode error\) 'utf-8' codec|^Non-UTF-8 code")
_WRONG_CALL = re.compile(r"(\w+)\(\) (?:missing|takes|got)\b")
_FORMS = {
    "computation": '@computation(name="…")',
    "computation_multi": '@computation_multi(name="…")',
    "decoder": '@decoder(header_length=4, length_fmt=">I")',
    "encoder": "@encoder without parentheses",
    "key_extractor": "@key_extractor without parentheses",
    "partition": "@partition without parentheses",
    "state_computation": '@state_computation(name="…", state=…)',
    "TCPSinkConfig": "TCPSinkConfig(host, port, encoder)",
    "TCPSourceConfig": "TCPSourceConfig(host, port, decoder)",
}
"""How names of the API are used whose errors by Python itself do not tell it."""

log = structlog.get_logger("wallaroo")


@dataclass(frozen=True)
class ApplicationRef:
    """A picklable reference from which any process can load the application.

    Args:
        app: Directory, `.py` file or module name, as on the command line.
        args: Arguments of `application_setup`.
        max_frame: Maximum length of a payload that its sources accept, in bytes.
        code: File with the `FrozenCode` to import; None to import what is in the directory.
    """

    app: str
    args: tuple[str, ...] = ()
    max_frame: int = DEFAULT_MAX_FRAME
    code: Path | None = None

    @property
    def directory(self) -> Path | None:
        """Directory of the application; None for an importable module."""
        path = Path(self.app)
        if path.is_dir():
            return path.resolve()
        return path.resolve().parent if path.suffix == ".py" else None

    @property
    def module(self) -> str:
        """Name under which the application's module is imported."""
        path = Path(self.app)
        if path.is_dir():
            return "application"
        return path.stem if path.suffix == ".py" else self.app

    def absolute(self) -> ApplicationRef:
        """Return the same reference with an absolute path."""
        app = self.app if self.directory is None else str(Path(self.app).resolve())
        return dataclasses.replace(self, app=app)

    def load(self) -> Application:
        """Import the application, call its `application_setup` and resolve the result.

        Raises:
            UsageError: The application does not exist, or its arguments are invalid.
            ApplicationError: It cannot be imported, has no `application_setup`, raises in it, or is
                invalid.
        """
        with _lock, _told_if_slow(self.app):
            self._check()
            directory = self.directory  # before code of the application goes to another one
            # as on the first worker of a Wallaroo cluster: some applications read it
            arguments.ARGS = ("wallaroo", *self.args, "--cluster-initializer")
            wallaroo._ARGS = arguments.ARGS  # noqa: SLF001
            module = self._import()
            setup = getattr(module, "application_setup", None)
            if not callable(setup):
                msg = f"{module.__file__} has no function application_setup(args)"
                raise ApplicationError(msg)
            _check_parameters(setup)
            with _current_directory(directory):
                try:
                    declared = setup(list(self.args))
                except WallarooError:
                    raise
                except (Exception, SystemExit, KeyboardInterrupt) as error:
                    pass_interrupt(error)
                    if _is_done(error):
                        raise
                    msg = f"application_setup raised {_describe_error(error, directory)}"
                    raise ApplicationError(msg) from error
            return resolve(declared, self.max_frame, _serialization(module), place_of(setup))

    def _check(self) -> None:
        if not self.app:
            msg = "the name of the application is empty"
            raise UsageError(msg)
        path = Path(self.app)
        if path.is_dir() and not (path / "application.py").is_file():
            msg = f"the directory {self.app} has no application.py"
            raise UsageError(msg)
        if path.suffix == ".py" and not path.is_file():
            msg = f"the file {self.app!r} does not exist"
            raise UsageError(msg)
        if path.is_file() and path.suffix != ".py":
            msg = f"the file {self.app!r} is not an application: its name does not end with .py"
            raise UsageError(msg)
        if path.suffix == ".py" and "." in path.stem:
            other = f"{path.stem.replace('.', '_')}.py"
            msg = (
                f"the file {self.app!r} cannot be imported, because its name has a dot before .py; "
                f"call it {other}"
            )
            raise UsageError(msg)
        if path.suffix == ".py" and (path.stem in _TAKEN or _is_installed(path)):
            msg = (
                f"the file {self.app!r} has the name of the module {path.stem}, which Python, this "
                "runtime or a library imports; rename it"
            )
            raise UsageError(msg)
        if not path.exists() and (
            os.sep in self.app or not self.app.replace(".", "").isidentifier()
        ):
            msg = (
                f"no application found at {self.app}; "
                "use a directory with an application.py, a .py file, or the name of a module"
            )
            raise UsageError(msg)

    def _import(self) -> ModuleType:
        directory, name = self.directory, self.module
        if directory is not None:
            _make_importable(directory, self.code)
            _forget_other(name, directory)
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if directory is None and f"{name}.".startswith(f"{error.name}."):
                msg = f"no application found at {self.app}: no such directory, file or module"
                raise UsageError(msg) from None
            msg = f"the application cannot be imported: {_describe_error(error, directory)}"
            raise ApplicationError(msg) from error
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            pass_interrupt(error)
            msg = f"the application cannot be imported: {_describe_error(error, directory)}"
            raise ApplicationError(msg) from error


@contextlib.contextmanager
def _told_if_slow(app: str) -> Iterator[None]:
    """Warn if the block, which loads *app*, takes long: it may wait for something for ever."""
    loading = threading.get_ident()

    def tell() -> None:
        frame = sys._current_frames().get(loading)  # noqa: SLF001
        while frame is not None and not is_application(frame.f_code.co_filename):
            frame = frame.f_back
        at = {} if frame is None else {"at": str(Place(frame.f_code.co_filename, frame.f_lineno))}
        log.warning("application is still loading", app=app, after_s=_SLOW_S, **at)

    timer = threading.Timer(_SLOW_S, tell)
    timer.name, timer.daemon = "slow-loading", True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # before this process forks


_TAKEN = sys.stdlib_module_names | {"wallaroo", "pyspark", "py4j"}
"""Modules that would be imported in place of a file of the same name, or the other way round."""
_INSTALLED = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
"""Where libraries are installed."""
_imported_from: list[Path] = []
"""The directory that was added to `sys.path` for the last application."""
_frozen: list[Path] = []
"""The file with the frozen code of the last application, if it has one."""


def _is_installed(file: Path) -> bool:
    """Whether a library has a module of the name of *file*, which is not that file."""
    found = PathFinder.find_spec(file.stem, _INSTALLED)
    return found is not None and found.origin not in {None, str(file.resolve())}


def _serialization(module: ModuleType) -> Serialization | None:
    """Return `serialize` and `deserialize` of *module*; None unless it has both."""
    serialize = getattr(module, "serialize", None)
    deserialize = getattr(module, "deserialize", None)
    if callable(serialize) and callable(deserialize):
        return Serialization(serialize, deserialize)
    return None


def _is_done(error: BaseException) -> bool:
    """Whether *error* ends the process on purpose, as after `--help` of an application."""
    return isinstance(error, SystemExit) and error.code in {None, 0}


def _check_parameters(setup: Callable[..., Any]) -> None:
    """Check that *setup* returns an application when it is called with its arguments.

    Raises:
        ApplicationError: It cannot.
    """
    problem = None
    if inspect.iscoroutinefunction(setup) or inspect.isasyncgenfunction(setup):
        problem = "is declared with async def; write def"
    elif inspect.isgeneratorfunction(setup):
        problem = "contains yield; return the application"
    if problem is not None:
        msg = f"{place_of(setup)}: application_setup {problem}"
        raise ApplicationError(msg)
    try:
        inspect.signature(setup).bind([])
    except TypeError as error:
        msg = f"{place_of(setup)}: application_setup is called with (args): {error}"
        raise ApplicationError(msg) from error
    except ValueError:
        return  # a builtin without a signature


def _make_importable(directory: Path, code: Path | None) -> None:
    """Put *directory* first on `sys.path`, instead of the directory of the last application.

    Modules of the last application are unloaded: both applications may have a `codecs.py`, and
    other frozen *code* has other modules of the same names.
    """
    frozen = [] if code is None else [code]
    if _imported_from == [directory] and _frozen == frozen:
        return
    for last in _imported_from:
        sys.path[:] = [entry for entry in sys.path if entry != str(last)]
        unload(last)
    _imported_from[:], _frozen[:] = [directory], frozen
    sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    if code is not None:
        frozen_code.use(FrozenCode.read(code))


def _forget_other(name: str, directory: Path) -> None:
    """Unload the module *name* if user code has imported it from elsewhere than *directory*."""
    present = sys.modules.get(name)
    if present is None or _is_in(directory, present):
        return
    del sys.modules[name]


def unload(directory: Path) -> None:
    """Let the modules in *directory* be imported again."""
    modules = {name for name, module in list(sys.modules.items()) if _is_in(directory, module)}
    for name in list(sys.modules):
        if name.partition(".")[0] in modules:
            del sys.modules[name]


def _is_in(directory: Path, module: ModuleType) -> bool:
    """Whether the module or package *module* is directly in *directory*."""
    if not (named := getattr(module, "__file__", None)):  # a package without __init__.py
        return any(directory == Path(one).parent for one in getattr(module, "__path__", ()))
    file = Path(named)
    return directory == (file.parent.parent if file.stem == "__init__" else file.parent)


def _describe_error(error: BaseException, directory: Path | None) -> str:
    """Return *error* in one line, with the innermost line of user code in its traceback."""
    if isinstance(error, SyntaxError) and error.filename:
        text = "the file is not UTF-8" if _NOT_UTF_8.search(error.msg) else error.msg
        return f"SyntaxError: {text} ({Place(error.filename, error.lineno or 0)})"
    frames = traceback.extract_tb(error.__traceback__)
    frames_of_app = [
        f for f in frames if directory is None or Path(f.filename).is_relative_to(directory)
    ]
    place = (
        f" ({Place(frames_of_app[-1].filename, frames_of_app[-1].lineno or 0)})"
        if frames_of_app
        else ""
    )
    text = printable(error)
    return f"{type(error).__name__}{f': {text}' if text else ''}{_remedy(error)}{place}"


def _remedy(error: BaseException) -> str:
    """What to write instead, if *error* is a wrong use of the API for which that is known."""
    if isinstance(error, AttributeError) and type(error.obj).__module__.startswith("wallaroo."):
        public = [name for name in dir(error.obj) if not name.startswith("_")]
        near = difflib.get_close_matches(str(error.name), public, 1, 0.65)
        return f"; did you mean {near[0]!r}?" if near else ""
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "; the directory of the application is on sys.path: import from there without a dot"
    last = traceback.extract_tb(error.__traceback__)[-1:]
    if isinstance(error, SystemExit) and any(one.filename == argparse.__file__ for one in last):
        given = list(arguments.ARGS[1:-1])
        return f"; it was called with {given}, which parser.parse_args(args) parses"
    called = _WRONG_CALL.match(str(error)) if isinstance(error, TypeError) else None
    form = _FORMS.get(called[1]) if called else None
    return f"; write {form}" if form else ""


@contextlib.contextmanager
def _current_directory(directory: Path | None) -> Iterator[None]:
    previous = Path.cwd()
    if directory is not None:
        os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(previous)
