"""Prints the software bill of materials of an installation, as CycloneDX (JSON).

python -m scripts.sbom               # of this installation
python -m scripts.sbom - <parts      # of the one with these parts, from inventory.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from scripts.inventory import Part, inventory

from wallaroo import __version__

_TYPES = {"system": ComponentType.OPERATING_SYSTEM, "platform": ComponentType.PLATFORM}


def bill(parts: Iterable[Part]) -> str:
    """Return the bill of the installation that consists of *parts*."""
    bom = Bom(components=map(_component, parts))
    subject = Component(type=ComponentType.APPLICATION, name="wallaroo", version=__version__)
    bom.metadata.component = subject
    bom.register_dependency(subject, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2)


def _component(part: Part) -> Component:
    kind, group, name, version = part["kind"], part.get("group"), part["name"], part["version"]
    url = PackageURL(
        "generic" if kind == "platform" else kind, group, name, version, part.get("qualifiers")
    )
    component = Component(
        type=_TYPES.get(kind, ComponentType.LIBRARY),
        group=group if kind == "maven" else None,
        name=name,
        version=version,
        purl=None if kind == "system" else url,
        components=map(_component, part.get("parts", ())),
    )
    if expression := part.get("license"):
        component.licenses.add(LicenseExpression(expression))
    if date := part.get("date"):
        component.properties.add(Property(name="wallaroo:java:release-date", value=date))
    if vendor := part.get("vendor"):
        component.supplier = OrganizationalEntity(name=vendor)
    if digest := part.get("sha256"):
        component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=digest))
    return component


if __name__ == "__main__":
    print(bill(json.load(sys.stdin) if sys.argv[1:] == ["-"] else inventory()))
