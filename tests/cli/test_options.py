"""Options and the settings that they fill: one declaration, one default, both directions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from tests.helpers import WORD_COUNT
from wallaroo.api.addresses import Address
from wallaroo.cli import driver, gateway, run
from wallaroo.cli.main import main
from wallaroo.cli.option_tree import Options
from wallaroo.engine.settings import EngineSettings
from wallaroo.errors import UsageError
from wallaroo.gateway.settings import GatewaySettings
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run.local_gateway import LocalGateway
from wallaroo.run.settings import (
    KUBERNETES,
    ClusterSettings,
    DashboardSettings,
    GatewayAccess,
    GatewayProcessSettings,
    LocalSettings,
)

HOMONYMS = {
    "--archive": "where the log is moved, where it is read",
    "--format": "of a picture, of exported entities",
    "--framing": "of what is sent, of what is received",
    "--listen": "where outputs are received, the internal API",
    "--output": "a file, a format, an output of a sink",
    "--source": "of dead letters, of topics",
    "--to": "a source, a file, a receiver",
}
"""Names of options that are different things in different commands."""
OTHER_DEFAULTS = {
    ("check", "--function-timeout"): "10.0",
    ("demo", "--workers"): "2",
    ("driver", "--master"): KUBERNETES,
    ("run", "--ui"): "127.0.0.1:7990",
}
"""Defaults that differ from those of the same option in other commands."""
REQUIRED = ["app", "--state-dir=state"]
GATEWAY_ARGUMENTS = {
    "--max-frame": "77",
    "--code": "code",
    "--max-connections": "11",
    "--idle-timeout": "0.25",
    "--frame-timeout": "7.5",
    "--journal-limit-gib": "0.125",
    "--keep-messages-gib": "0.5",
    "--keep-messages-days": "1.5",
    "--archive": "archive",
    "--on-error": "Market Data=drop",
    "--in-tls-cert": "in.pem",
    "--in-tls-key": "in.key",
    "--in-tls-client-ca": "in-ca.pem",
    "--out-tls-cert": "out.pem",
    "--out-tls-key": "out.key",
    "--out-tls-ca": "out-ca.pem",
    "--skip-damaged": "",
    "--on-lost": "skip",
    "--trace-one-in": "5",
    "--state-dir": "state",
    "--listen": "http://[::1]:7900",
    "--token-file": "token",
    "--chunks-port": "7901",
    "--listen-tls-cert": "api.pem",
    "--listen-tls-key": "api.key",
    "--health": "[::1]:7980",
    "--take-over": "",
    "--histories": "",
    "--function-timeout": "2.5",
    "--dead-letters-mib": "0.5",
    "--dead-letters-days": "1.5",
    "--ports": "7010",
    "--log-level": "info,spark=debug",
}
"""Another value than the default for every option of `wallaroo gateway` that fills a setting; none
for flags."""
WITHOUT_OPTION = {
    "gateway.traffic.sources.connections_per_peer",  # half of --max-connections
    "gateway.traffic.sources.held_bytes",
    "gateway.traffic.journal.memory_bytes",
    "gateway.traffic.journal.streams",
    "gateway.tls.authorities",  # the internal API's clients show a token
    "gateway.outbox_bytes",
}
"""Settings of a gateway that no option changes."""


def commands(
    command: click.Command = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Every command, by what stands after `wallaroo`."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))
    else:
        yield " ".join(path), command


def shared_options() -> dict[str, dict[str, click.Option]]:
    """The options that several commands have: by name, then by command."""
    found: dict[str, dict[str, click.Option]] = defaultdict(dict)
    for path, command in commands():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                for name in parameter.opts:
                    found[name][path] = parameter
    return {name: by for name, by in found.items() if len(by) > 1 and name not in HOMONYMS}


def filled(options: Options[Any], command: click.Command, *arguments: str) -> Any:
    """The settings that a command line fills."""
    return options.fill(command.make_context("wallaroo", list(arguments)).params)


def leaves(settings: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in a tree of settings, by its path."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if is_dataclass(value):
            yield from leaves(value, f"{path}{field.name}.")
        else:
            yield f"{path}{field.name}", value


def written(name: str) -> str:
    """An option of `GATEWAY_ARGUMENTS` on the command line."""
    return f"{name}={GATEWAY_ARGUMENTS[name]}" if GATEWAY_ARGUMENTS[name] else name


def default_of(option: click.Option) -> str | None:
    default = option.to_info_dict()["default"]
    return None if default is None else str(default)


@pytest.mark.parametrize(("name", "by"), shared_options().items())
def test_an_option_is_the_same_in_all_commands(name: str, by: Mapping[str, click.Option]) -> None:
    declarations = [
        (option.help, option.name, option.multiple, option.metavar, option.type.to_info_dict())
        for option in by.values()
    ]
    assert all(declaration == declarations[0] for declaration in declarations)
    defaults = {
        default_of(option) for path, option in by.items() if (path, name) not in OTHER_DEFAULTS
    }
    assert len(defaults) <= 1


@pytest.mark.parametrize(("command", "name"), OTHER_DEFAULTS)
def test_a_default_of_one_command_is_known(command: str, name: str) -> None:
    assert default_of(shared_options()[name][command]) == OTHER_DEFAULTS[command, name]


def test_the_defaults_of_a_run_are_those_of_its_settings() -> None:
    settings = filled(run.OPTIONS, run.run, "app", "--master=local[1]")
    assert settings == LocalSettings(engine=EngineSettings(ApplicationRef("app"), "local[1]"))
    assert settings.dashboard == DashboardSettings(Address("127.0.0.1", "7990"))


def test_the_defaults_of_a_gateway_are_those_of_its_settings() -> None:
    arguments = ("app", "--state-dir=state", "--listen=http://a:1")
    assert filled(gateway.OPTIONS, gateway.gateway, *arguments) == GatewayProcessSettings(
        application=ApplicationRef("app"), gateway=GatewaySettings(Path("state"), "http://a:1")
    )


def test_days_without_a_size_are_refused() -> None:
    days, refused = "--keep-messages-days=7", "--keep-messages-days needs --keep-messages-gib"
    with pytest.raises(UsageError, match=refused):
        filled(run.OPTIONS, run.run, "app", "--master=local[1]", days)
    with pytest.raises(UsageError, match=refused):
        filled(gateway.OPTIONS, gateway.gateway, *REQUIRED, "--listen=http://a:1", days)


def test_the_defaults_of_a_driver_are_those_of_its_settings() -> None:
    arguments = ("app", "--state-dir=state", "--partitions=8", "--gateway=a:1", "--token-file=t")
    assert filled(driver.OPTIONS, driver.driver, *arguments) == ClusterSettings(
        engine=EngineSettings(ApplicationRef("app"), KUBERNETES),
        gateway=GatewayAccess(Address("a", "1"), Path("t")),
        state_dir=Path("state"),
        partitions=8,
    )


def test_a_gateway_started_by_a_run_gets_all_settings_of_its_parent() -> None:
    options = {
        name
        for parameter in gateway.gateway.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
    }
    assert options - {"--child", "--in", "-i", "--out", "-o"} == GATEWAY_ARGUMENTS.keys()
    arguments = ["app", *map(written, GATEWAY_ARGUMENTS)]
    addresses = ["--in=a:1", "--out=b:2"]
    settings = filled(gateway.OPTIONS, gateway.gateway, *arguments, *addresses, "--", "--rate", "5")
    defaults = filled(gateway.OPTIONS, gateway.gateway, "other", "--state-dir=.", "--listen=a")
    unchanged = dict(leaves(settings)).items() & dict(leaves(defaults)).items()
    assert {path for path, _ in unchanged} == WITHOUT_OPTION - {
        "gateway.traffic.sources.connections_per_peer"
    }
    _, _, _, command, *child_arguments = gateway.command_line(settings)
    assert command == "gateway"
    assert filled(gateway.OPTIONS, gateway.gateway, *child_arguments) == settings


def test_the_options_for_traffic_reach_the_gateway_of_a_run(tmp_path: Path) -> None:
    of_run = {name for parameter in run.run.params for name in parameter.opts}
    own = {
        "--state-dir",
        "--log-level",
        "--max-frame",
        "--code",
    }  # of the run, or of the application
    arguments = [written(name) for name in GATEWAY_ARGUMENTS if name in of_run - own]
    settings = filled(run.OPTIONS, run.run, "app", "--master=local[1]", *arguments)
    reference = ApplicationRef(str(WORD_COUNT), ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1"))
    with ExitStack() as stack:
        of_gateway = LocalGateway(settings, gateway.command_line, tmp_path, tmp_path, stack)
        _, _, _, _, _, *command = of_gateway.command(reference, reference.load())
    made = filled(gateway.OPTIONS, gateway.gateway, *command)
    required = ("--state-dir=.", "--listen=a")
    direct = filled(gateway.OPTIONS, gateway.gateway, "app", *required, *arguments)
    assert made.gateway.traffic == direct.gateway.traffic
