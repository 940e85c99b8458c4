"""The charts' values and the options that they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from tests.charts.harness import HELM, Helm, pod_spec
from wallaroo.cli.driver import driver
from wallaroo.cli.gateway import gateway

OPTIONS: dict[str, tuple[click.Command, str, Any]] = {
    "maxFrameBytes": (gateway, "--max-frame", 77),
    "functionTimeoutSeconds": (driver, "--function-timeout", 2.5),
    "maxEntityMiB": (driver, "--max-entity-mib", 7),
    "stateMemoryGiB": (driver, "--state-memory-gib", 2.5),
    "partitions": (driver, "--partitions", 16),
    "logLevel": (gateway, "--log-level", "info,spark=debug"),
    "acceptLostJournal": (driver, "--accept-lost-journal", True),
    "skipDamaged": (gateway, "--skip-damaged", True),
    "gateway.journalLimitGiB": (gateway, "--journal-limit-gib", 0.5),
    "gateway.keepMessagesGiB": (gateway, "--keep-messages-gib", 0.5),
    "gateway.keepMessagesDays": (gateway, "--keep-messages-days", 7.0),
    "gateway.maxConnections": (gateway, "--max-connections", 2_000_000),
    "gateway.idleTimeoutSeconds": (gateway, "--idle-timeout", 0.5),
    "gateway.frameTimeoutSeconds": (gateway, "--frame-timeout", 7.0),
    "gateway.deadLetters.limitMiB": (gateway, "--dead-letters-mib", 64.0),
    "gateway.deadLetters.days": (gateway, "--dead-letters-days", 7.0),
    "driver.memory": (driver, "--driver-memory", "2g"),
    "driver.gatewayPatienceSeconds": (driver, "--gateway-patience", 60.0),
}
"""The option that each value becomes as it is, and another value than the default."""
WITH: dict[str, dict[str, Any]] = {
    "gateway.keepMessagesDays": {"gateway": {"keepMessagesGiB": 0.5}},
}
"""What else a value needs."""
OTHER_DEFAULTS = {"--journal-limit-gib": 3.0, "--max-frame": 1024**2}
"""Defaults of charts that suit the default sizes of volumes and pods."""
REQUIRED = {
    gateway: ["app", "--state-dir=state", "--listen=a:1"],
    driver: ["app", "--state-dir=state", "--gateway=a:1", "--token-file=token", "--partitions=8"],
}
"""What has to be on the command line."""


def parsed(helm: Helm, command: click.Command, values: dict[str, Any]) -> click.Context:
    """What *command* reads from the arguments that a chart gives it."""
    objects = helm.objects("market-spread", values)
    pod = pod_spec(objects, str(command.name))
    name, *arguments = pod["containers"][0]["args"]
    assert name == command.name
    return command.make_context(name, [str(argument) for argument in arguments])


def option(command: click.Command, name: str) -> click.Option:
    (found,) = (p for p in command.params if name in p.opts)
    assert isinstance(found, click.Option)
    return found


def nested(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The values of *one*, and those of *other*, which have at most one level in common."""
    return {key: {**one.get(key, {}), **other[key]} if key in other else one[key] for key in one}


@pytest.mark.parametrize("path", OPTIONS)
def test_a_value_becomes_its_option(helm: Helm, path: str) -> None:
    command, name, value = OPTIONS[path]
    parameter = str(option(command, name).name)
    assert parsed(helm, command, {}).params[parameter] != value
    values = merged(nested(path, value), WITH.get(path, {}))
    assert parsed(helm, command, values).params[parameter] == value


@pytest.mark.parametrize("path", OPTIONS)
def test_the_default_of_a_value_is_that_of_its_option(helm: Helm, path: str) -> None:
    command, name, _ = OPTIONS[path]
    parameter = str(option(command, name).name)
    default = command.make_context("wallaroo", list(REQUIRED[command])).params[parameter]
    assert parsed(helm, command, {}).params[parameter] == OTHER_DEFAULTS.get(name, default)


@pytest.mark.parametrize("path", OPTIONS)
def test_the_schema_has_the_lower_bound_of_the_option(path: str) -> None:
    command, name, _ = OPTIONS[path]
    schema = json.loads((HELM / "wallaroo/files/values.schema.json").read_text())
    for key in path.split("."):
        schema = schema["properties"][key]
    if "minimum" in schema:
        bound = option(command, name).type
        assert isinstance(bound, click.IntRange)
        assert schema["minimum"] == bound.min
    assert "default" not in schema  # the one place for defaults is values.yaml


def test_the_archive_is_on_a_volume_that_is_mounted(helm: Helm) -> None:
    claim = {"name": "archive", "persistentVolumeClaim": {"claimName": "archive"}}
    values = {
        "archiveDirectory": "/archive/orders",
        "extraVolumes": [claim],
        "extraVolumeMounts": [{"name": "archive", "mountPath": "/archive"}],
    }
    assert parsed(helm, gateway, {"gateway": values}).params["archive"] == Path("/archive/orders")
    assert parsed(helm, gateway, {}).params["archive"] is None
