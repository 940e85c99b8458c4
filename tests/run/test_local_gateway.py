"""The gateway of a run on one machine, and what processes of the run get to reach it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from wallaroo.api.addresses import Address
from wallaroo.cli.gateway import command_line
from wallaroo.engine.settings import EngineSettings
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run.local_gateway import LocalGateway
from wallaroo.run.settings import LocalSettings
from wallaroo.system.credentials import TOKEN_FILE_VARIABLE


@pytest.mark.parametrize(("master", "here"), [("local[2]", True), ("spark://h:7077", False)])
def test_the_token_itself_is_in_no_environment(master: str, here: bool, tmp_path: Path) -> None:
    engine = EngineSettings(ApplicationRef("app"), master)
    settings = LocalSettings(engine=engine, gateway=Address("127.0.0.1", "7900"))
    gateway = LocalGateway(settings, command_line, tmp_path, tmp_path, ExitStack())
    file = tmp_path / "token"
    assert gateway.credentials() == {TOKEN_FILE_VARIABLE: str(file)}
    made = gateway.with_credentials(engine)
    assert made.environment == ({TOKEN_FILE_VARIABLE: str(file)} if here else {})
    assert made.token == (None if here else file.read_text())
    assert file.read_text() not in repr(made)
