"""Makes everything that a release consists of, in dist/; called by `make release`.

The same commit makes the same wheel, source distribution and charts, byte for byte: what is in them
bears the commit's time. Images contain the packages of the day.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import click

from wallaroo import __version__
from wallaroo.cli.build import usable_engine
from wallaroo.errors import UsageError

ROOT = Path(__file__).parents[1]
CHARTS = ("market-spread", "word-count")
SAVES = {
    "docker": ["docker", "save", "--output={archive}", "{tag}"],
    "podman": ["podman", "save", "--format=oci-archive", "--output={archive}", "{tag}"],
    "buildah": ["buildah", "push", "{tag}", "oci-archive:{archive}:{tag}"],
}
"""How each engine writes an image as an archive with an OCI layout; Docker does so from 25 on."""
SUMS = "SHA256SUMS"


@click.command()
@click.option(
    "--destination",
    type=click.Path(path_type=Path),
    default=ROOT / "dist",
    help="Directory to create; its previous content is removed.",
)
@click.option("--images/--no-images", default=True, help="Whether to build images.")
@click.option("--engine", type=click.Choice(tuple(SAVES)), help="Tool that builds the images.")
@click.option("--option", "options", multiple=True, help="Option for the engine; may be repeated.")
def release(destination: Path, images: bool, engine: str | None, options: tuple[str, ...]) -> None:
    """Make wheel, source distribution, charts, images, bills of materials, site and checksums."""
    if images:
        try:
            engine = usable_engine(engine)
        except UsageError as error:
            sys.exit(f"{error}; or pass --no-images")
    time = int(run("git", "log", "-1", "--format=%ct"))
    if run("git", "status", "--porcelain"):
        click.echo(
            "the checkout has uncommitted changes: do not publish what is made from it", err=True
        )
    shutil.rmtree(destination, ignore_errors=True)
    destination.mkdir(parents=True)
    packages(destination, time)
    for chart in CHARTS:
        say(destination, archive_of(ROOT / "helm" / chart, chart, destination, time))
    say(destination, site(destination, time))
    bill = destination / f"wallaroo-{__version__}.cdx.json"
    bill.write_text(run(sys.executable, "-m", "scripts.sbom"))
    say(destination, bill)
    for chart in CHARTS if images else ():
        for made in image_of(chart, destination, str(engine), options):
            say(destination, made)
    made_all = sorted(path for path in destination.iterdir() if path.name != SUMS)
    sums = [f"{digest(path)}  {path.name}\n" for path in made_all]
    (destination / SUMS).write_text("".join(sums))
    click.echo(f"{destination / SUMS}: check with sha256sum --check {SUMS}")


def run(*command: str | Path, given: str | None = None, **environment: str) -> str:
    """The output of *command* in the checkout, *given* its input; ends this program if it fails."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        input=given,
        env={**os.environ, **environment},
        check=False,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def say(destination: Path, made: Path) -> None:
    """Tell that *made* is there, and how large it is."""
    click.echo(f"{made.relative_to(destination.parent)}  {made.stat().st_size / 2**10:,.0f} KiB")


def packages(destination: Path, time: int) -> None:
    """Make the wheel and the source distribution."""
    for target in ("wheel", "sdist"):
        command = ("-m", "hatchling", "build", "-t", target, "-d", str(destination))
        run(sys.executable, *command, SOURCE_DATE_EPOCH=str(time))
    for made in sorted(destination.iterdir()):
        say(destination, made)


def archive_of(directory: Path, name: str, destination: Path, time: int) -> Path:
    """Pack *directory* as *name*, with what its links lead to in their place."""
    archive = destination / f"{name}-{__version__}.tgz"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True, format=tarfile.GNU_FORMAT) as tar:
        for path in files(directory):
            member = tar.gettarinfo(str(path), f"{name}/{path.relative_to(directory)}")
            member.mtime, member.mode, member.type = time, 0o644, tarfile.REGTYPE
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.size = path.stat().st_size
            with path.open("rb") as content:
                tar.addfile(member, content)
    archive.write_bytes(gzip.compress(packed.getvalue(), mtime=time))
    return archive


def files(directory: Path) -> Iterable[Path]:
    """The files below *directory*, also below linked directories, in a fixed order."""
    for parent, directories, names in os.walk(directory, followlinks=True):
        directories.sort()
        yield from (Path(parent, name) for name in sorted(names))


def site(destination: Path, time: int) -> Path:
    """Make the documentation, as an archive."""
    run(sys.executable, "-m", "mkdocs", "build", "--quiet", NO_MKDOCS_2_WARNING="1")
    return archive_of(ROOT / "build" / "docs", "wallaroo-docs", destination, time)


def image_of(
    chart: str, destination: Path, engine: str, options: tuple[str, ...]
) -> Iterable[Path]:
    """Build the image of an example application; yields its archive and its bill of materials."""
    tag = f"localhost/{chart}:{__version__}"
    extra = [f"--option={option}" for option in options]
    build = ("-m", "wallaroo", "build", f"apps/{chart.replace('-', '_')}", "-t", tag)
    run(sys.executable, *build, "--engine", engine, *extra)
    archive = destination / f"{chart}-{__version__}.oci.tar"
    run(*(part.format(archive=archive, tag=tag) for part in SAVES[engine]))
    yield archive
    bill = destination / f"{chart}-{__version__}.cdx.json"
    bill.write_text(bill_of(tag, engine))
    yield bill


def bill_of(tag: str, engine: str) -> str:
    """What the image *tag* contains, found by a program that runs in it."""
    program = (ROOT / "scripts" / "inventory.py").read_text()
    if engine == "buildah":
        container = run("buildah", "from", tag)
        inside = ("buildah", "run", "--network=none", container, "--", "python3", "-")
        try:
            parts = run(*inside, given=program)
        finally:
            run("buildah", "rm", container)
    else:
        options = ("--rm", "--interactive", "--network=none", "--entrypoint=python3")
        parts = run(engine, "run", *options, tag, "-", given=program)
    return run(sys.executable, "-m", "scripts.sbom", "-", given=parts)


def digest(path: Path) -> str:
    """The SHA-256 of the content of *path*."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


if __name__ == "__main__":
    release()
