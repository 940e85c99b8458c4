"""Prints the software bill of materials (CycloneDX, JSON) of a list of locked packages.

Usage: sbom.py REQUIREMENTS, which has `name==version` and hashes, as image/requirements.py prints.
The system's packages and Java are no part of it: they come with the base of the image.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL


def main() -> None:
    """Print."""
    locked = Path(sys.argv[1]).read_text()
    blocks = re.split(r"^(?=[A-Za-z0-9])", locked, flags=re.MULTILINE)[1:]
    bom = Bom(components=[component(block) for block in blocks])
    bom.metadata.component = Component(name="wallaroo", type=ComponentType.APPLICATION)
    bom.register_dependency(bom.metadata.component, bom.components)
    print(JsonV1Dot6(bom).output_as_string(indent=2))


def component(block: str) -> Component:
    """The package that *block* of the list locks."""
    match = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", block)
    if match is None:
        sys.exit(f"no NAME==VERSION: {block.splitlines()[0]}")
    name, version = match.groups()
    hashes = [
        HashType(alg=HashAlgorithm.SHA_256, content=content)
        for content in re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
    ]
    url = PackageURL("pypi", name=name, version=version)
    return Component(name=name, version=version, purl=url, bom_ref=str(url), hashes=hashes)


if __name__ == "__main__":
    main()
