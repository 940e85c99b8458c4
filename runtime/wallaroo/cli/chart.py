"""`wallaroo chart`: writes a Helm chart for an application."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import click

from wallaroo import __version__
from wallaroo.cli.options import application_without_addresses
from wallaroo.errors import UsageError
from wallaroo.gateway.settings import check_sources
from wallaroo.model.application import Application
from wallaroo.system.new_directory import new_directory
from wallaroo.system.shipped_files import shipped_file

_MODEL = "helm/word-count"
"""The chart whose templates are copied; they name no application."""
_FIRST_PORT = 7010
_MAX_NAME = 30
"""Characters of a chart's name, so that with a release's it fits into those of objects."""
_RESERVED = ("chunks", "health", "inner")
"""Names of the gateway's own ports."""


@click.command()
@click.argument("app", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="Directory to create; it must not exist yet, or be empty.  [default: the name]",
)
@click.option(
    "--repository",
    help="Repository of the image, as in registry/votes.  [default: localhost/ and the name]",
)
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def chart(
    app: Path, directory: Path | None, repository: str | None, app_args: tuple[str, ...]
) -> None:
    """Write a Helm chart for APP, a directory with an application.py or a single file.

    The chart has the application's name, its sources that listen on a port, and the templates of
    the library chart, and needs nothing else. APP ARGS are passed to the application, here and on
    the cluster.

    \b
    Example:
      wallaroo build votes.py -t localhost/votes:0.1.0
      wallaroo chart votes.py --directory votes-chart
      helm install votes ./votes-chart
    """  # noqa: D301  (click reads \b)
    application = application_without_addresses(str(app), app_args)
    check_sources(application)
    name = _name(application.name)
    directory = directory or Path(name)
    with new_directory(directory):
        image = repository or f"localhost/{name}"
        _write(directory, name, application, image, app_args)
        readme = _readme(name, application.name, f"{app.name} -t {image}:{__version__}")
        (directory / "README.md").write_text(readme, encoding="utf-8")
    click.echo(f"created the chart {name} in {directory}")
    click.echo(f"  sources and test  {directory / 'values.yaml'}")
    click.echo(f"  how to use it     {directory / 'README.md'}")
    click.echo(f"  install it        helm install {name} {_as_path(directory)}")


def _name(application: str) -> str:
    """A chart's name made of an application's.

    Raises:
        UsageError: Nothing of it may stand in such a name.

    Example:
        >>> _name("Word Count Application")
        'word-count-application'
    """
    name = re.sub(r"[^a-z0-9]+", "-", application.lower()).strip("-")[:_MAX_NAME].strip("-")
    name = name.lstrip("0123456789-")
    if name:
        return name
    msg = (
        f"the application's name {application!r} has no letter that a chart's name may contain: "
        "give it a name with Latin letters"
    )
    raise UsageError(msg)


def _as_path(directory: Path) -> str:
    """*directory* as an argument that helm does not take for a chart of a repository."""
    return str(directory) if directory.is_absolute() else f"./{directory}"


def _write(
    directory: Path, name: str, application: Application, image: str, app_args: tuple[str, ...]
) -> None:
    model, library = shipped_file(_MODEL), shipped_file("helm/wallaroo")
    shutil.copytree(model / "templates", directory / "templates")
    shutil.copytree(library, directory / "charts" / "wallaroo")
    schema = library / "files" / "values.schema.json"
    (directory / schema.name).write_bytes(schema.read_bytes())
    icon = re.search(r"^icon: .*\n", (model / "Chart.yaml").read_text(), re.MULTILINE)
    metadata = _metadata(name, application.name) + (icon[0] if icon else "")
    (directory / "Chart.yaml").write_text(metadata, encoding="utf-8")
    values = _values(application, image, app_args)
    (directory / "values.yaml").write_text(values, encoding="utf-8")


def _metadata(name: str, application: str) -> str:
    return f"""\
apiVersion: v2
name: {name}
description: {json.dumps(application, ensure_ascii=False)}
type: application
version: {__version__}
appVersion: {json.dumps(__version__)} # the image's tag, unless image.tag names another
kubeVersion: ">=1.20.0-0 || >=0.0.0-0 <0.0.1-0" # 0.0.0: a build without a version
dependencies:
  - name: wallaroo # in charts/
    version: {__version__}
    import-values: [defaults]
"""


def _readme(name: str, application: str, build: str) -> str:
    """How to use the chart *name*; *build* are the arguments with which its image is built."""
    examples = ""
    for path in sorted(shipped_file("helm/wallaroo/examples").iterdir()):
        purpose = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        examples += f"- `charts/wallaroo/examples/{path.name}`: {purpose}\n"
    return f"""\
# {application}

A Helm chart for the application {application}, which runs on Wallaroo on Spark.

    wallaroo build {build}
    helm install {name} .
    helm test {name}
    wallaroo status {name}

`values.yaml` has the values of this application. `helm show values charts/wallaroo` describes all
the others.

## Examples

Values by task, to be adapted and added by `helm install {name} . -f FILE`:

{examples}"""


def _values(application: Application, image: str, app_args: tuple[str, ...]) -> str:
    names = _source_names(application)
    ports = "".join(
        f"\n  - name: {name}\n    port: {_FIRST_PORT + i}" for i, name in enumerate(names)
    )
    events = "".join(
        f"\n  - name: {name}\n    port: {port}" for name, port in _event_ports(application, names)
    )
    if events:
        events = f"\n# The ports of its sinks that viewers connect to.\nevents:{events}\n"
    args = f"\nargs: {json.dumps(app_args, ensure_ascii=False)}\n" if app_args else ""
    first = names[0] if names else "…"
    return f"""\
# Values of this application. `helm show values charts/wallaroo` lists the others that it may set.
image:
  repository: {image}

# The ports of the application's sources, in the order in which it creates them.
sources:{ports or " []"}
{events}{args}
# What `helm test` sends, and the outputs that it expects: ordinary messages, which change state.
# {{nonce}} stands for six letters that differ in each run.
#
# test:
#   messages:
#     - source: {first}
#       text: "{{nonce}}"
#   expect:
#     - text: "{{nonce}}: 1\\n"
"""


def _source_names(application: Application) -> list[str]:
    """Names of the sources that listen, as those of a Service's ports: unique, up to 15 letters."""
    names: list[str] = []
    for source in application.sources:
        if source.address:
            names.append(_port_name(source.name, "source", names))
    return names


def _event_ports(application: Application, sources: list[str]) -> list[tuple[str, int]]:
    """Names and ports of the sinks that listen; *sources* are the names of the other ports."""
    found: list[tuple[str, int]] = []
    for sink in application.sinks:
        if sink.address:
            names = [*sources, *(name for name, _ in found)]
            found.append((_port_name(sink.name, "events", names), sink.address[1]))
    return found


def _port_name(name: str, kind: str, taken: list[str]) -> str:
    """A name for a port, like *name* if that is possible, and unlike those that are *taken*."""
    like = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:15].strip("-")
    if re.search("[a-z]", like) and like not in (*taken, *_RESERVED):
        return like
    return next(free for n in range(len(taken) + 1, 10_000) if (free := f"{kind}-{n}") not in taken)
