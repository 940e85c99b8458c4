"""`wallaroo build`: builds an image of an application with Docker, Podman or Buildah."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click

from wallaroo import __version__
from wallaroo.api.secret_files import named_secret_files
from wallaroo.cli.image_files import CACHES, ImageFiles
from wallaroo.cli.options import application_without_addresses
from wallaroo.codecs._settings import VARIABLE as REGISTRY_SETTINGS
from wallaroo.connectors.kafka.settings import VARIABLE as KAFKA_SETTINGS
from wallaroo.engine.spark import s3
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.shipped_files import PACKAGE, SHIPPED, shipped_file

ENGINES = ("docker", "podman", "buildah")
"""Tools that build images, in the order in which they are tried."""
_CHECKS = {"docker": "version", "podman": "info", "buildah": "version"}
"""The command that shows whether each can build: docker queries its daemon, podman its machine."""
_CHECK_S = 15.0
"""Seconds that this command may take; a daemon may have to start first."""
_FILES = ("Dockerfile", "pyproject.toml", "requirements.lock", "README.md", "LICENSE")
_DIRECTORIES = ("helm", "image")
_EXAMPLES = "apps"
_COMMAND = "wallaroo_command.py"
"""What the command loads first, beside the package."""
_IGNORED = shutil.ignore_patterns(*CACHES)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_APP = "app"
"""Directory of the application in the build's context."""


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
    help="Base image: a Debian or Ubuntu whose packages include a Python from 3.11 to 3.14. With a "
    "digest (NAME@sha256:…), each build uses the same one.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="OPTION",
    help="Option to pass on to the engine's build, as in --option=--no-cache; may be repeated.",
)
@click.option(
    "--with",
    "parts",
    type=click.Choice(["s3"]),
    multiple=True,
    help="What the image contains besides: s3 for state on an object store, with jars that "
    "`wallaroo fetch s3` fetches here.",
)
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def build(
    app: Path,
    tag: str,
    engine: str | None,
    base: str | None,
    options: tuple[str, ...],
    parts: tuple[str, ...],
    app_args: tuple[str, ...],
) -> None:
    """Build an image of APP, a directory with an application.py or a single file.

    The image contains the runtime, Spark, Java, and the packages listed in the application's
    requirements.txt, if it has one. What its .dockerignore names is left out, as are secrets: files
    that the application names as such, private keys, .env, and the like. APP ARGS, if the
    application needs any to load, are only used to check it, here and in the image; they are not
    stored in the image.

    \b
    Example:
      wallaroo build apps/market_spread -t localhost/market-spread:0.1.0
    """  # noqa: D301  (click reads \b)
    if base is not None:
        _check_base(base)
    application = application_without_addresses(str(app), app_args)
    engine = usable_engine(engine)
    with tempfile.TemporaryDirectory(prefix="wallaroo-build-") as directory:
        context = Path(directory)
        _fill(context, app)
        if parts:
            shutil.copytree(
                s3.fetch(), context / "runtime" / s3.IN_IMAGE.relative_to(PACKAGE.parent)
            )
        arguments = {
            "APP": _APP,
            "APP_ARGS": shlex.join(app_args),
            "WITH": " ".join(parts),
            "NAME": application.name,
            "VERSION": __version__,
            "REVISION": _revision(),
            "UPDATES": datetime.now(UTC).date().isoformat(),
            **({"BASE": base} if base else {}),
            "BASE_DIGEST": _base_digest(engine, base or _default_base()) or "unknown",
        }
        pairs = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        # the default format of podman and buildah does not support HEALTHCHECK
        form = [] if engine == "docker" else ["--format=docker"]
        built = subprocess.run(
            [engine, "build", *form, *options, *pairs, f"--tag={tag}", str(context)], check=False
        )
    if built.returncode:
        msg = f"{engine} did not build {tag}: see its output above"
        raise RuntimeFailure(msg)
    click.echo(f"{tag} contains {application.name}{_size(engine, tag)}")


def usable_engine(requested: str | None) -> str:
    """The engine to build with: the first one that is installed and responds.

    Raises:
        UsageError: There is none.
    """
    unusable: list[str] = []
    for name in [requested] if requested else ENGINES:
        if not shutil.which(name):
            continue
        problem = _problem(name)
        if problem is None:
            click.echo("; ".join([*unusable, f"building with {name}"]), err=True)
            return name
        unusable.append(f"{name} {problem}")
    if unusable:
        remedy = "start it, or omit --engine" if requested else "start one of them"
        msg = f"no image can be built: {'; '.join(unusable)}; {remedy}"
        raise UsageError(msg)
    msg = f"none of {', '.join(ENGINES)} is on the PATH: install one of them"
    if requested:
        msg = f"{requested} is not on the PATH: install it, or omit --engine"
    raise UsageError(msg)


def _problem(name: str) -> str | None:
    """Why the engine *name* cannot build; None if it can."""
    try:
        check = subprocess.run(
            [name, _CHECKS[name]],
            capture_output=True,
            text=True,
            check=False,
            timeout=_CHECK_S,
        )
    except subprocess.TimeoutExpired:
        return f"did not respond within {_CHECK_S:g} s"
    except OSError as error:
        return f"cannot be run ({error.strerror})"
    if check.returncode == 0:
        return None
    reason = (check.stderr.strip().splitlines() or ["no reason given"])[-1]
    return f"does not respond ({reason})"


def _fill(context: Path, app: Path) -> None:
    """Copy the files for the build into *context*."""
    try:
        for name in _FILES:
            shutil.copy2(shipped_file(name), context / name)
        ImageFiles(shipped_file(_EXAMPLES)).copy(context / _EXAMPLES)
        for name in _DIRECTORIES:
            shutil.copytree(shipped_file(name), context / name, ignore=_IGNORED)
        package = context / "runtime" / PACKAGE.name
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns(*CACHES, SHIPPED))
        shutil.copy2(PACKAGE.parent / _COMMAND, package.parent)
        if app.is_dir():
            files = ImageFiles(app, _secret_files())
            files.copy(context / _APP)
            for line in files.report():
                click.echo(line, err=True)
        else:
            (context / _APP).mkdir()
            shutil.copy2(app, context / _APP / "application.py")
    except OSError as error:
        msg = f"the build's files cannot be copied: {error}"
        raise RuntimeFailure(msg) from error


def _secret_files() -> set[Path]:
    """The files that the loaded application or a variable names as secret."""
    kafka = os.environ.get(KAFKA_SETTINGS, "").split(":")
    named = filter(None, [*kafka, os.environ.get(REGISTRY_SETTINGS)])
    return {*named_secret_files(), *(Path(name).absolute() for name in named)}


def _revision() -> str:
    """The checkout's commit, for the image's label."""
    try:
        revision = subprocess.run(
            ["git", "-C", str(shipped_file("Dockerfile").parent), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return revision.stdout.strip()


def _check_base(base: str) -> None:
    """Refuse a *base* whose digest is malformed.

    Raises:
        UsageError: It is.
    """
    name, mark, digest = base.partition("@")
    if mark and not (name and _DIGEST.fullmatch(digest)):
        msg = f"--base {base}: expected NAME@sha256: and 64 hexadecimal digits"
        raise UsageError(msg)


def _default_base() -> str:
    match = re.search(r"^ARG BASE=(\S+)", shipped_file("Dockerfile").read_text(), re.MULTILINE)
    return match[1] if match else ""


def _base_digest(engine: str, base: str) -> str | None:
    """The digest of the image *base*, from its name or from *engine*; None if neither knows it."""
    if "@" in base:
        return base.partition("@")[2]
    asked = ["image", "inspect", "--format", "{{json .RepoDigests}}"]
    if engine == "buildah":
        asked = ["inspect", "--type", "image", "--format", "{{.FromImageDigest}}"]
    inspected = subprocess.run([engine, *asked, base], capture_output=True, text=True, check=False)
    match = _DIGEST.search(inspected.stdout) if inspected.returncode == 0 else None
    digest = match[0] if match else None
    shown = f"which is {digest} now" if digest else "whose digest is not known here"
    click.echo(f"the base {base}, {shown}, may change; --base NAME@sha256:… pins it", err=True)
    return digest


def _size(engine: str, tag: str) -> str:
    listed = subprocess.run(
        [engine, "images", "--format", "{{.Size}}", tag],
        capture_output=True,
        text=True,
        check=False,
    )
    return f", {listed.stdout.split(chr(10))[0].strip()}" if listed.stdout.strip() else ""
