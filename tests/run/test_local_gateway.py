"""The gateway of a run on one machine, and what processes of the run get to reach it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.api.addresses import Address
from wallaroo.cli.gateway import command_line
from wallaroo.engine.settings import EngineSettings
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run.local_gateway import LocalGateway
from wallaroo.run.settings import LocalSettings
from wallaroo.system.credentials import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE


@pytest.mark.parametrize(
    ("master", "variable"),
    [("local[2]", TOKEN_FILE_VARIABLE), ("spark://h:7077", TOKEN_VARIABLE)],
)
def test_the_token_itself_is_in_environments_of_other_machines_alone(
    master: str, variable: str, tmp_path: Path
) -> None:
    engine = EngineSettings(ApplicationRef("app"), master)
    settings = LocalSettings(engine=engine, gateway=Address("127.0.0.1", "7900"))
    made = LocalGateway(settings, command_line, tmp_path, tmp_path).credentials()
    file = tmp_path / "token"
    assert made == {variable: str(file) if variable == TOKEN_FILE_VARIABLE else file.read_text()}
