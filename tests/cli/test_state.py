"""`wallaroo state`: what it says on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner

from tests.cli.test_check_state import APPLICATION
from tests.golden import PRESENT
from tests.helpers import WORD_COUNT, unpack
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


def test_an_export_says_what_it_leaves_out_because_the_application_lacks_the_state(
    tmp_path: Path,
) -> None:
    app = tmp_path / "golden.py"
    app.write_text(APPLICATION)
    state_dir = unpack(PRESENT / "plain.tar.gz", tmp_path / "state")
    asked = ["state", "export", str(app), "--state-dir", str(state_dir), "--"]
    done = CliRunner().invoke(main, [*asked, "totals"])
    assert (len(done.stdout.splitlines()), done.stderr) == (3, "")
    done = CliRunner().invoke(main, [*asked, "others"])
    assert (done.exit_code, done.stdout) == (0, "")
    told = json.loads(done.stderr)
    assert told["event"] == "entities are not exported"
    assert (told["state"], told["entities"]) == ("totals", 3)
