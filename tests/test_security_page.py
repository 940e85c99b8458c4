"""What SECURITY.md lists as settings can be set."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.helpers import ROOT
from wallaroo.cli.gateway import gateway
from wallaroo.cli.run import run

SECTION = (ROOT / "SECURITY.md").read_text().partition("## What is on by default")[2]
_ROWS = re.findall(r"^\|.*\| ([^|]*) \|$", SECTION.partition("\n## ")[0], re.MULTILINE)
NAMED = re.findall(r"`([^`]+)`", "\n".join(_ROWS[2:]))
VALUES = yaml.safe_load((ROOT / "helm" / "wallaroo" / "values.yaml").read_text())


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_a_setting_of_the_table_of_defaults_is_there(name: str) -> None:
    if name.startswith("--"):
        options = {
            option
            for command in (run, gateway)
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert name in options
        return
    found: Any = VALUES["exports"]["defaults"]
    for part in name.split("."):
        assert part in found
        found = found[part]


def test_the_table_names_settings_of_both() -> None:
    assert {"--in-tls-cert", "tls.sources.secretName", "--idle-timeout"} <= set(NAMED)
