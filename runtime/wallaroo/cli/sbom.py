"""`wallaroo sbom`: prints the software bill of materials of an installation.

It inspects the installation itself, so that an image's bill describes exactly that image. It does
not use CycloneDX's library, which would add seven packages to every image. Sources: CycloneDX
1.6 (https://cyclonedx.org/docs/1.6/json/), package URLs (https://github.com/package-url/purl-spec).
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import time
import uuid
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from wallaroo import __version__

Component = dict[str, Any]
"""A component of the installation, in the document's form."""

_OS_RELEASE = Path("/etc/os-release")
_DPKG_STATUS = Path("/var/lib/dpkg/status")
_POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")


@click.command()
def sbom() -> None:
    """Print the software bill of materials of this installation, as CycloneDX (JSON).

    It lists what is actually installed: Python packages, Spark's jars and their contents, Java, and
    on Debian and Ubuntu the system packages.

    \b
    Example:
      docker run --rm localhost/market-spread:0.1.0 sbom > sbom.json
    """  # noqa: D301  (click reads \b)
    from wallaroo.engine.spark.archive import home_of
    from wallaroo.engine.spark.java import find_java, spark_jars

    java = find_java()
    components = [
        *system(_OS_RELEASE, _DPKG_STATUS),
        *python_packages(),
        *java_runtime(home_of(java), java),
        *(of_jar(jar) for jar in sorted(spark_jars().glob("*.jar"))),
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "component": {"type": "application", "name": "wallaroo", "version": __version__},
        },
        "components": components,
    }
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def system(os_release: Path, dpkg_status: Path) -> Iterator[Component]:
    """The operating system and, if it uses dpkg, its packages.

    Args:
        os_release: Description of the system, see os-release(5).
        dpkg_status: Database of dpkg.
    """
    if not os_release.exists():
        return
    values = _assignments(os_release)
    kind, version = values.get("ID", "linux"), values.get("VERSION_ID", "")
    yield {"type": "operating-system", "name": kind, "version": version}
    if not dpkg_status.exists():
        return
    for paragraph in dpkg_status.read_text().split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][\w-]*): *(.*)$", paragraph, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        qualifiers = {"arch": fields["Architecture"], "distro": f"{kind}-{version}"}
        if "Source" in fields:  # security advisories name the source package
            qualifiers["upstream"] = fields["Source"].split()[0]
        yield _component("deb", kind, fields["Package"], fields["Version"], qualifiers)


def python_packages() -> Iterator[Component]:
    """Python and its packages; of several with one name, the one that Python imports."""
    python = _component("generic", None, "python", platform.python_version())
    yield {**python, "type": "platform"}
    names = {"wallaroo"}  # the subject of the document
    for distribution in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.name).lower()
        if name in names:
            continue
        names.add(name)
        component = _component("pypi", None, name, distribution.version)
        if licenses := distribution.metadata.get_all("License-Expression"):
            component["licenses"] = [{"expression": licenses[0]}]
        yield component


def java_runtime(home: Path, java: str) -> Iterator[Component]:
    """Java, with the date of its release, by which its age can be judged.

    Args:
        home: Directory of the installation, with the file `release`.
        java: Path of `java`, which knows the date if the file does not contain it.
    """
    release = home / "release"
    if not release.exists():
        return
    values = _assignments(release)
    component = _component("generic", None, "openjdk", values["JAVA_VERSION"])
    if date := values.get("JAVA_VERSION_DATE") or _java_date(java):
        component["properties"] = [{"name": "wallaroo:java:release-date", "value": date}]
    if vendor := values.get("IMPLEMENTOR"):
        component["supplier"] = {"name": vendor}
    yield {**component, "type": "platform"}


def _java_date(java: str) -> str | None:
    """The release date that *java* prints; None if it cannot be run or prints none."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r'version "[^"]*" (\d{4}-\d{2}-\d{2})', shown.stderr)
    return match[1] if match else None


def of_jar(jar: Path) -> Component:
    """A jar, with the libraries whose Maven metadata it contains."""
    with zipfile.ZipFile(jar) as archive:
        poms = sorted(filter(_POM.fullmatch, archive.namelist()))
        libraries = [_coordinates(archive.read(pom).decode("utf-8", "replace")) for pom in poms]
    own: Component | None = None
    inside = []
    for group, name, version in filter(None, libraries):
        component = _component("maven", group, name, version)
        if own is None and jar.name.startswith(f"{name}-{version}"):
            own = component
        else:
            inside.append(component)
    if own is None:
        match = _JAR.fullmatch(jar.name)
        name, version = (match["name"], match["version"]) if match else (jar.stem, "0")
        own = _component("generic", None, name, version)
    content = hashlib.sha256(jar.read_bytes()).hexdigest()
    own["hashes"] = [{"alg": "SHA-256", "content": content}]
    if inside:
        own["components"] = inside
    return own


def _component(
    kind: str, group: str | None, name: str, version: str, qualifiers: dict[str, str] | None = None
) -> Component:
    parts = [kind, *([quote(group, safe="")] if group else []), quote(name, safe="")]
    url = f"pkg:{'/'.join(parts)}@{quote(version, safe=':')}"
    if qualifiers:
        pairs = (f"{key}={quote(value, safe=':')}" for key, value in sorted(qualifiers.items()))
        url += f"?{'&'.join(pairs)}"
    named = {"group": group} if kind == "maven" else {}
    return {"type": "library", **named, "name": name, "version": version, "purl": url}


def _assignments(file: Path) -> dict[str, str]:
    """The values in *file*, which has one `NAME="VALUE"` per line."""
    return dict(re.findall(r'^(\w+)="?(.*?)"?$', file.read_text(), re.MULTILINE))


def _coordinates(properties: str) -> tuple[str, str, str] | None:
    """Group, name and version in a Maven project's *properties*; None if one is missing."""
    values = dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", properties, re.MULTILINE))
    try:
        return values["groupId"], values["artifactId"], values["version"]
    except KeyError:
        return None
