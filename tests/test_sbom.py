"""The bill of materials: a valid document that names what is there."""

from __future__ import annotations

import hashlib
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pyspark
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from scripts.inventory import Part, inventory, java_runtime, of_jar, system
from scripts.sbom import bill

from wallaroo.engine.spark.java import find_java, spark_jars

STATUS = """\
Package: tzdata
Status: deinstall ok config-files
Architecture: all
Version: 2026a-0

Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc (2.36)
Version: 1:2.36-9+deb12u14
Depends: libgcc-s1
Description: GNU C Library
 Version: of no interest here

Package: tini
Status: install ok installed
Architecture: amd64
Version: 0.19.0-1
"""
OS_RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n'


def components(*parts: Part) -> list[dict[str, Any]]:
    """What the bill of *parts* says of them."""
    return json.loads(bill(parts))["components"]  # type: ignore[no-any-return]


def urls(*parts: Part) -> list[str]:
    """The package URLs in the bill of *parts*."""
    return [component["purl"] for component in components(*parts)]


def test_the_bill_of_this_installation_is_valid_and_names_what_is_there() -> None:
    text = bill(inventory())
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found: dict[str, Any] = {c["name"]: c for c in json.loads(text)["components"]}
    assert found["pyspark"]["purl"] == f"pkg:pypi/pyspark@{pyspark.__version__}"
    java = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True)
    (date,) = [p["value"] for p in found["openjdk"]["properties"]]
    assert f'"{found["openjdk"]["version"]}" {date}' in java.stderr
    assert found["openjdk"]["type"] == found["python"]["type"] == "platform"
    (jar,) = spark_jars().glob("spark-core_*.jar")
    core = found[jar.name.rpartition("-")[0]]
    assert core["group"] == "org.apache.spark"
    assert core["hashes"][0]["content"] == hashlib.sha256(jar.read_bytes()).hexdigest()
    assert "wallaroo" not in found


def test_packages_of_the_system_are_those_that_are_installed(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text(OS_RELEASE)
    (tmp_path / "status").write_text(STATUS)
    debian, *packages = system(tmp_path / "os-release", tmp_path / "status")
    (told,) = components(debian)
    assert (told["type"], told["name"], told["version"]) == ("operating-system", "debian", "12")
    assert urls(*packages) == [
        "pkg:deb/debian/libc6@1:2.36-9%2Bdeb12u14?arch=amd64&distro=debian-12&upstream=glibc",
        "pkg:deb/debian/tini@0.19.0-1?arch=amd64&distro=debian-12",
    ]


def test_a_system_without_dpkg_has_a_name_alone_and_one_without_os_release_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "os-release").write_text("ID=alpine\nVERSION_ID=3.24.0\n")
    told = list(system(tmp_path / "os-release", tmp_path / "status"))
    assert told == [{"kind": "system", "name": "alpine", "version": "3.24.0"}]
    assert list(system(tmp_path / "none", tmp_path / "status")) == []
    assert list(java_runtime(tmp_path, "java")) == []


def test_java_is_told_with_its_date_and_vendor_where_they_are_known(tmp_path: Path) -> None:
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.9"\nMODULES="java.base"\n')
    (plain,) = components(*java_runtime(tmp_path, str(tmp_path / "java")))
    assert plain["version"] == "21.0.9"
    assert not {"properties", "supplier"} & plain.keys()
    (tmp_path / "release").write_text(
        'IMPLEMENTOR="Eclipse Adoptium"\nJAVA_VERSION="21.0.9"\nJAVA_VERSION_DATE="2025-10-21"\n'
    )
    (full,) = components(*java_runtime(tmp_path, str(tmp_path / "java")))
    assert full["supplier"] == {"name": "Eclipse Adoptium"}
    assert full["properties"] == [{"name": "wallaroo:java:release-date", "value": "2025-10-21"}]


def test_a_jar_is_named_with_the_libraries_that_it_has_taken_in(tmp_path: Path) -> None:
    jar = tmp_path / "client-runtime-3.5.0.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for group, name, version in (
            ("org.example", "client-runtime", "3.5.0"),
            ("io.netty", "netty-all", "4.1.2"),
        ):
            properties = f"#made\ngroupId={group}\nartifactId={name}\nversion={version}\n"
            archive.writestr(f"META-INF/maven/{group}/{name}/pom.properties", properties)
        archive.writestr("META-INF/maven/org.odd/odd/pom.properties", "version=1\n")
    (told,) = components(of_jar(jar))
    assert told["purl"] == "pkg:maven/org.example/client-runtime@3.5.0"
    assert [part["purl"] for part in told["components"]] == ["pkg:maven/io.netty/netty-all@4.1.2"]


def test_a_jar_that_does_not_say_what_it_is_goes_by_its_name(tmp_path: Path) -> None:
    for name, url in (
        ("scala-xml_2.13-2.4.0.jar", "pkg:generic/scala-xml_2.13@2.4.0"),
        ("odd.jar", "pkg:generic/odd@0"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a.class", b"")
        assert urls(of_jar(tmp_path / name)) == [url]
