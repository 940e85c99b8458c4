"""What is refused before anything starts, in words that say what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers import WORD_COUNT
from tests.spark.harness import called
from wallaroo.engine.spark import s3
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.object_store import ObjectPath, endpoint

RUN = ("run", WORD_COUNT, "--in", "127.0.0.1:0", "--out", "127.0.0.1:1", "--no-ui")
STATE = ObjectPath.at("s3a://states/votes")


def test_a_run_without_the_jars_names_the_command_that_fetches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    refused = called(*RUN, "--state-dir", STATE)
    assert refused.returncode == 2
    assert "call `wallaroo fetch s3` once" in refused.stderr


@pytest.mark.parametrize("name", ["secret.key", "access.key", "bucket.states.session.token"])
def test_credentials_on_the_command_line_are_refused_and_not_shown(name: str) -> None:
    setting = f"spark.hadoop.fs.s3a.{name}"
    refused = called(*RUN, "--state-dir", STATE, "--conf", f"{setting}=quite-secret")
    assert refused.returncode == 2
    assert f"--conf {setting} cannot be set" in refused.stderr
    assert "AWS_SECRET_ACCESS_KEY" in refused.stderr
    assert "quite-secret" not in refused.stderr


def test_jars_that_are_not_those_of_the_checksums_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven = tmp_path / "mvn"
    maven.write_text(
        "#!/bin/sh\nfor a; do case $a in -DoutputDirectory=*) d=${a#*=};; esac; done\n"
        'mkdir "$d" && echo other >"$d/s3-2.35.4.jar"\n'
    )
    maven.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(RuntimeFailure, match=r"are not those .*s3-2\.35\.4\.jar"):
        s3.fetch()
    assert s3.jars() == ()
    maven.write_text("#!/bin/sh\necho Connection refused\nexit 1\n")
    with pytest.raises(RuntimeFailure, match="cannot fetch the jars for S3: Connection refused"):
        s3.fetch()
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(UsageError, match="install it"):
        s3.fetch()


def test_an_endpoint_that_is_no_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "localhost:9000")
    with pytest.raises(UsageError, match="is not http://HOST:PORT"):
        endpoint()


def test_a_run_is_refused_whose_archive_cannot_be_reached_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://secret@host")
    refused = called(*RUN, "--archive", "s3a://states/archive")
    assert refused.returncode == 2
    assert "'--archive': the environment variable AWS_ENDPOINT_URL_S3 is not" in refused.stderr
    assert "secret" not in refused.stderr


def test_executors_keep_uploads_in_directories_of_their_own(tmp_path: Path) -> None:
    setting = "spark.hadoop.fs.s3a.buffer.dir"
    assert s3.settings_for(STATE, tmp_path)[setting] == f"{tmp_path}/s3"
    assert setting not in s3.settings_for(STATE, None)
