"""The ports of the charts' pods are those of the table in SECURITY.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.charts.harness import Helm, pods

SECURITY = Path(__file__).parents[2] / "SECURITY.md"


def documented() -> set[tuple[str, str]]:
    """Pod and port of each row of the table; `sources`, `events` and `receiver.ports` are names."""
    behind = SECURITY.read_text().split("\n## Ports\n")[1].split("\nOn a cluster, by pod:\n")[1]
    found = set()
    for row in behind.strip().split("\n\n")[0].splitlines()[2:]:
        ports, names, *_ = re.split(r" *\| *", row.strip("| "))
        for name in names.split(", "):
            found |= {(name, port) for port in re.findall(r"\d+|(?<=`)[\w.]+(?=`)", ports)}
    return found


def test_the_ports_of_pods_are_in_the_table(helm: Helm) -> None:
    sources = [{"name": "text", "port": 7123}]
    values: dict[str, Any] = {
        "sources": sources,
        "events": [{"name": "prices", "port": 7124}],
        "dashboard": {"enabled": True, "tokenSecret": "token"},
    }
    names = {"7123": "sources", "7124": "events", "7002": "receiver.ports"}
    found = set()
    for pod, spec in pods(helm.objects("word-count", values)):
        for container in spec["containers"]:
            for port in container.get("ports", []):
                number = str(port["containerPort"])
                found.add((pod.removeprefix("word-count-"), names.get(number, number)))
    assert found == documented() - {("executor", "7079")}  # Spark names that one
