"""Prints the parts of an installation, as JSON, of which `sbom.py` makes a bill of materials.

It needs nothing but the installation, so that an image can describe itself:

    docker run --rm -i --entrypoint python3 IMAGE - <scripts/inventory.py
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

Part = dict[str, Any]
"""A part of the installation: kind, name and version, and what else is known of it."""

_OS_RELEASE = Path("/etc/os-release")
_DPKG_STATUS = Path("/var/lib/dpkg/status")
_POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")


def inventory() -> list[Part]:
    """Return the parts of this installation."""
    from wallaroo.engine.spark.java import find_java, spark_jars
    from wallaroo.engine.spark.java_version import home_of

    java = find_java()
    return [
        *system(_OS_RELEASE, _DPKG_STATUS),
        *python_packages(),
        *java_runtime(home_of(java), java),
        *(of_jar(jar) for jar in sorted(spark_jars().glob("*.jar"))),
    ]


def system(os_release: Path, dpkg_status: Path) -> Iterator[Part]:
    """The operating system and, if it uses dpkg, its packages.

    Args:
        os_release: Description of the system, see os-release(5).
        dpkg_status: Database of dpkg.
    """
    if not os_release.exists():
        return
    values = _assignments(os_release)
    kind, version = values.get("ID", "linux"), values.get("VERSION_ID", "")
    yield {"kind": "system", "name": kind, "version": version}
    if not dpkg_status.exists():
        return
    for paragraph in dpkg_status.read_text().split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][\w-]*): *(.*)$", paragraph, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        qualifiers = {"arch": fields["Architecture"], "distro": f"{kind}-{version}"}
        if "Source" in fields:  # security advisories name the source package
            qualifiers["upstream"] = fields["Source"].split()[0]
        package = {"kind": "deb", "group": kind, "name": fields["Package"]}
        yield {**package, "version": fields["Version"], "qualifiers": qualifiers}


def python_packages() -> Iterator[Part]:
    """Python and its packages; of several with one name, the one that Python imports."""
    yield {"kind": "platform", "name": "python", "version": platform.python_version()}
    names = {"wallaroo"}  # the subject of the document
    for distribution in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.name).lower()
        if name in names:
            continue
        names.add(name)
        found = {"kind": "pypi", "name": name, "version": distribution.version}
        licenses = distribution.metadata.get_all("License-Expression") or [None]
        yield {**found, "license": licenses[0]}


def java_runtime(home: Path, java: str) -> Iterator[Part]:
    """Java, with the date of its release, by which its age can be judged.

    Args:
        home: Directory of the installation, with the file `release`.
        java: Path of `java`, which knows the date if the file does not contain it.
    """
    release = home / "release"
    if not release.exists():
        return
    values = _assignments(release)
    yield {
        "kind": "platform",
        "name": "openjdk",
        "version": values["JAVA_VERSION"],
        "date": values.get("JAVA_VERSION_DATE") or _java_date(java),
        "vendor": values.get("IMPLEMENTOR"),
    }


def _java_date(java: str) -> str | None:
    """The release date that *java* prints; None if it cannot be run or prints none."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r'version "[^"]*" (\d{4}-\d{2}-\d{2})', shown.stderr)
    return match[1] if match else None


def of_jar(jar: Path) -> Part:
    """A jar, with the libraries whose Maven metadata it contains."""
    with zipfile.ZipFile(jar) as archive:
        poms = sorted(filter(_POM.fullmatch, archive.namelist()))
        libraries = [_coordinates(archive.read(pom).decode("utf-8", "replace")) for pom in poms]
    own: Part | None = None
    inside = []
    for part in filter(None, libraries):
        if own is None and jar.name.startswith(f"{part['name']}-{part['version']}"):
            own = part
        else:
            inside.append(part)
    if own is None:
        match = _JAR.fullmatch(jar.name)
        name, version = (match["name"], match["version"]) if match else (jar.stem, "0")
        own = {"kind": "generic", "name": name, "version": version}
    return {**own, "sha256": hashlib.sha256(jar.read_bytes()).hexdigest(), "parts": inside}


def _assignments(file: Path) -> dict[str, str]:
    """The values in *file*, which has one `NAME="VALUE"` per line."""
    return dict(re.findall(r'^(\w+)="?(.*?)"?$', file.read_text(), re.MULTILINE))


def _coordinates(properties: str) -> Part | None:
    """The library with a Maven project's *properties*; None if a coordinate is missing."""
    values = dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", properties, re.MULTILINE))
    names = {"group": "groupId", "name": "artifactId", "version": "version"}
    if not values.keys() >= set(names.values()):
        return None
    return {"kind": "maven", **{name: values[key] for name, key in names.items()}}


if __name__ == "__main__":
    json.dump(inventory(), sys.stdout)
