"""`wallaroo build`: builds an image of an application with Docker, Podman or Buildah."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import click

from wallaroo import __version__
from wallaroo.cli.options import application_without_addresses
from wallaroo.errors import RuntimeFailure, UsageError

ENGINES = ("docker", "podman", "buildah")
"""Builders of images, in the order they are looked for."""
_ASKED = {"docker": "version", "podman": "info", "buildah": "version"}
"""What makes each answer whether it could build: docker asks its daemon, podman its machine."""
_ANSWER_S = 15.0
"""Seconds for that answer; a daemon that starts up takes some."""
_ROOT = Path(__file__).resolve().parents[3]
"""The project's checkout, where this is one."""
_FILES = ("Dockerfile", "pyproject.toml", "requirements.lock", "README.md", "LICENSE")
_DIRECTORIES = ("image", "runtime")
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", ".git", ".venv", ".wallaroo", ".pytest_cache", ".mypy_cache", ".ruff_cache"
)
_APP = "app"
"""Where the application is in the build's context."""


@click.command()
@click.argument("app", type=click.Path(path_type=Path, exists=True))
@click.option("-t", "--tag", required=True, help="Name of the image, as in registry/votes:1.2.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="Tool to build it with.  [default: the first of docker, podman and buildah that responds]",
)
@click.option(
    "--base",
    help="Base image: a Debian or Ubuntu whose packages include Python 3.11 or newer.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="OPTION",
    help="Option to pass on to the engine's build, as in --option=--no-cache; may be repeated.",
)
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def build(
    app: Path,
    tag: str,
    engine: str | None,
    base: str | None,
    options: tuple[str, ...],
    app_args: tuple[str, ...],
) -> None:
    """Build an image of APP, a directory with an application.py or a single file.

    The image contains the runtime, Spark, Java, and the packages listed in the application's
    requirements.txt, if it has one. APP ARGS, if the application needs any to load, are only used
    to check it, here and in the image; they are not stored in the image.

    \b
    Example:
      wallaroo build apps/market_spread -t localhost/market-spread:0.1.0
    """  # noqa: D301  (click reads \b)
    if not (_ROOT / "Dockerfile").is_file():
        msg = "wallaroo build needs the project's checkout: call it from the .venv of `make setup`"
        raise UsageError(msg)
    application = application_without_addresses(str(app), app_args)
    engine = _engine(engine)
    with tempfile.TemporaryDirectory(prefix="wallaroo-build-") as directory:
        context = Path(directory)
        _fill(context, app)
        arguments = {
            "APP": _APP,
            "APP_ARGS": shlex.join(app_args),
            "NAME": application.name,
            "VERSION": __version__,
            "REVISION": _revision(),
            **({"BASE": base} if base else {}),
        }
        pairs = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        # the other format of podman and buildah knows no HEALTHCHECK
        form = [] if engine == "docker" else ["--format=docker"]
        built = subprocess.run(
            [engine, "build", *form, *options, *pairs, f"--tag={tag}", str(context)], check=False
        )
    if built.returncode:
        msg = f"{engine} did not build {tag}: what it said is above"
        raise RuntimeFailure(msg)
    click.echo(f"{tag} holds {application.name}{_size(engine, tag)}")


def _engine(asked: str | None) -> str:
    """The engine to build with: the first that is there and answers.

    Raises:
        UsageError: There is none.
    """
    unfit: list[str] = []
    for name in [asked] if asked else ENGINES:
        if not shutil.which(name):
            continue
        problem = _problem(name)
        if problem is None:
            click.echo("; ".join([*unfit, f"building with {name}"]), err=True)
            return name
        unfit.append(f"{name} {problem}")
    if unfit:
        remedy = "start it, or leave --engine out" if asked else "start one of them"
        msg = f"no image can be built: {'; '.join(unfit)}; {remedy}"
        raise UsageError(msg)
    msg = f"none of {', '.join(ENGINES)} is on the PATH, and one is needed: install it"
    if asked:
        msg = f"{asked} is not on the PATH: install it, or leave --engine out"
    raise UsageError(msg)


def _problem(name: str) -> str | None:
    """Why the engine *name* cannot build; None where it can."""
    try:
        answer = subprocess.run(
            [name, _ASKED[name]],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWER_S,
        )
    except subprocess.TimeoutExpired:
        return f"did not answer within {_ANSWER_S:g} s"
    except OSError as error:
        return f"cannot be run ({error.strerror})"
    if answer.returncode == 0:
        return None
    reason = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
    return f"does not answer ({reason})"


def _fill(context: Path, app: Path) -> None:
    """Copy into *context* what the build needs."""
    try:
        for name in _FILES:
            shutil.copy2(_ROOT / name, context / name)
        for name in _DIRECTORIES:
            shutil.copytree(_ROOT / name, context / name, ignore=_LEFT_OUT)
        if app.is_dir():
            shutil.copytree(app, context / _APP, ignore=_LEFT_OUT)
        else:
            (context / _APP).mkdir()
            shutil.copy2(app, context / _APP / "application.py")
    except OSError as error:
        msg = f"the build's files cannot be put together: {error}"
        raise RuntimeFailure(msg) from error


def _revision() -> str:
    """The checkout's commit, for the image's label."""
    try:
        told = subprocess.run(
            ["git", "-C", str(_ROOT), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()


def _size(engine: str, tag: str) -> str:
    told = subprocess.run(
        [engine, "images", "--format", "{{.Size}}", tag],
        capture_output=True,
        text=True,
        check=False,
    )
    return f", {told.stdout.split(chr(10))[0].strip()}" if told.stdout.strip() else ""
