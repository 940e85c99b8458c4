"""`wallaroo state` without a state: what it says on stderr."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner

from tests.helpers import WORD_COUNT
from wallaroo.cli.main import main


def test_what_java_prints_when_it_starts_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    structlog.reset_defaults()
    asked = ["state", "export", str(WORD_COUNT), "--state-dir", str(tmp_path / "none")]
    assert CliRunner().invoke(main, asked).exit_code == 2
    structlog.get_logger("spark").debug("spark", line="VFORK MODE DEPRECATED")
    assert capsys.readouterr().err == ""
    structlog.get_logger("wallaroo").info("imported")
    assert "imported" in capsys.readouterr().err
