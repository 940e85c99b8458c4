"""Objects that are read and written like files."""

from __future__ import annotations

import os
import pickle
from io import BytesIO

import pytest

from tests.object_store.proxy import Proxy
from tests.object_store.server import Server
from wallaroo.errors import DamagedFile, RuntimeFailure, UsageError
from wallaroo.system import object_store
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.object_store import ObjectPath, on_disk
from wallaroo.system.store_errors import failure_of


def test_objects_are_written_read_listed_and_deleted(folder: ObjectPath) -> None:
    assert not folder.exists()
    for name in ("offsets/1", "offsets/12", "offsets/.2.tmp", "state/0/1/3.changelog"):
        write_durably(folder / name, name)
    assert folder.exists()
    assert folder.is_dir()
    assert not (folder / "offsets" / "1").is_dir()
    assert not (folder / "offset").exists()
    assert (folder / "offsets" / "12").read_text() == "offsets/12"
    assert [file.name for file in (folder / "offsets").glob(".*.tmp")] == [".2.tmp"]
    assert [file.name for file in (folder / "offsets").iterdir()] == [".2.tmp", "1", "12"]
    assert [str(file.relative_to(folder)) for file in folder.glob("state/*/[0-9]*")] == [
        "state/0/1"
    ]
    assert list((folder / "nothing").glob("*")) == []
    (folder / "offsets" / "1").write_bytes(b"other")
    assert (folder / "offsets" / "1").read_bytes() == b"other"
    assert (folder / "offsets" / "1").stat().st_size == 5
    assert (folder / "offsets" / "1").stat().st_mtime > 1_600_000_000
    with on_disk(folder / "offsets" / "1") as copy:
        assert copy.read_bytes() == b"other"
    (folder / "offsets" / "1.gz").write_bytes(b"as it is")
    assert (folder / "offsets" / "1.gz").read_bytes() == b"as it is"
    (folder / "offsets" / "1").unlink()
    (folder / "offsets" / "1").unlink(missing_ok=True)
    assert not (folder / "offsets" / "1").exists()


def test_what_is_not_there_is_not_found_as_on_a_disk(folder: ObjectPath) -> None:
    for use in (folder.read_text, folder.stat, folder.unlink, lambda: folder.open("rb")):
        with pytest.raises(FileNotFoundError):
            use()


def test_what_goes_while_it_is_read_is_not_found(
    folder: ObjectPath, server: Server, network: Proxy
) -> None:
    def remove(method: str, _path: str) -> None:
        if method == "GET":
            server.file(f"{folder.name}/note").unlink(missing_ok=True)

    for read in ((folder / "note").read_bytes, lambda: (folder / "note").open("rb").read()):
        (folder / "note").write_text("text" * 1_000)
        network.fail(remove)
        with pytest.raises(FileNotFoundError, match=f"No such object: '{folder}/note'"):
            read()
        network.heal()


def test_a_bucket_that_is_not_there_has_no_empty_folders(network: Proxy) -> None:
    missing = ObjectPath.at("s3a://nobucket/votes")
    for use in (missing.glob, missing.files):
        with pytest.raises(RuntimeFailure, match="s3a://nobucket/votes: there is no such bucket"):
            list(use(*["*"] * (use == missing.glob)))
    assert network.faults.total() == 0


def test_an_object_that_does_not_match_its_checksum_is_damaged(
    folder: ObjectPath, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_PAUSE_S", 0.0)
    (folder / "note").write_text("text")
    server.file(f"{folder.name}/note").write_text("test")
    for read in ((folder / "note").read_bytes, lambda: (folder / "note").open("rb").read()):
        with pytest.raises(DamagedFile, match=f"{folder}/note is damaged: .* from a copy"):
            read()


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
def test_wrong_credentials_are_told(
    folder: ObjectPath, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "other")
    for use in (lambda: list(folder.iterdir()), lambda: (folder / "note").write_text("text")):
        with pytest.raises(RuntimeFailure, match=f"the object store refuses {folder}"):
            use()


def test_a_path_is_the_same_in_other_processes() -> None:
    path = ObjectPath.at("s3a://bucket/a/b")
    assert pickle.loads(pickle.dumps(path)) == path
    assert str((path / "c").parent) == str(path.resolve()) == "s3a://bucket/a/b"
    assert isinstance(path.with_name("log"), ObjectPath)


@pytest.mark.parametrize(
    "location", ["s3a://bucket", "s3a://", "s3://bucket/a", "s3a://bucket/a b", "s3a://bucket/../a"]
)
def test_a_location_that_cannot_be_meant_is_refused(location: str) -> None:
    with pytest.raises(UsageError, match=r"s3a://BUCKET/FOLDER"):
        ObjectPath.at(location)


@pytest.mark.parametrize("fault", ["InternalError", "SlowDown", "lost"])
def test_requests_are_repeated(folder: ObjectPath, network: Proxy, fault: str) -> None:
    left = [fault, fault]
    network.fail(lambda method, _: left.pop() if left and method == "PUT" else None)
    (folder / "note").write_text("text")
    assert network.faults[fault] == 2
    left += [fault, fault]
    network.fail(lambda method, _: left.pop() if left and method == "GET" else None)
    assert (folder / "note").read_text() == "text"
    assert network.faults[fault] == 4


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("InternalError", r"s3a://states/.* cannot be reached"),
        ("ExpiredToken", r"the object store refuses s3a://states/.*: check the credentials"),
    ],
)
def test_a_store_that_refuses_is_told_and_is_no_damage(
    folder: ObjectPath, network: Proxy, fault: str, words: str
) -> None:
    (folder / "note").write_text("text")
    network.fail(lambda *_: fault)
    for use in (
        (folder / "note").read_text,
        (folder / "note").exists,
        (folder / "note").unlink,
        lambda: list(folder.glob("*")),
        lambda: write_durably(folder / "note", "other"),
    ):
        with pytest.raises(RuntimeFailure, match=words):
            use()
    network.heal()
    assert (folder / "note").read_text() == "text"


def test_an_outage_while_an_object_is_read_is_told(folder: ObjectPath, network: Proxy) -> None:
    (folder / "note").write_bytes(b"text" * 100)
    with (folder / "note").open("rb", 100) as opened:
        assert opened.read(8) == b"texttext"
        network.fail(lambda *_: "ExpiredToken")
        with pytest.raises(RuntimeFailure, match="the object store refuses"):
            opened.read()
        network.heal()
        assert opened.seek(-4, 2) == opened.tell() == 396
        assert opened.read() == b"text"


def test_a_long_object_that_is_cut_short_has_its_previous_content(
    folder: ObjectPath, network: Proxy
) -> None:
    file, content = folder / "long", os.urandom(25 * 1024**2)
    file.write_from(BytesIO(b"previous"))
    network.fail(lambda _, path: "ExpiredToken" if "partNumber=2" in path else None)
    with pytest.raises(RuntimeFailure, match="the object store refuses"):
        file.write_from(BytesIO(content))
    network.heal()
    assert file.read_bytes() == b"previous"
    assert len(list((folder / ".parts").iterdir())) == 1
    file.write_from(BytesIO(content))
    assert file.read_bytes() == content
    assert list((folder / ".parts").iterdir()) == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("AWS Error NO_SUCH_BUCKET during PutObject", "there is no such bucket; create it first"),
        ("AWS Error ACCESS_DENIED during HeadObject", "check the credentials (AWS_ACCESS_KEY_ID"),
        (
            "curlCode: 7, Failed to connect",
            "cannot be reached: curlCode: 7, Failed to connect; the",
        ),
    ],
)
def test_a_failure_says_what_to_do(error: str, words: str) -> None:
    told = str(failure_of("s3a://states/votes", error, "http://127.0.0.1:1"))
    assert words in told
    assert "s3a://states/votes" in told


def test_a_failure_reads_the_same_each_time() -> None:
    first, second = (
        f"When uploading part for key 'votes/.parts/a-{number}' in bucket 'states': AWS Error "
        f"NETWORK_CONNECTION during UploadPart operation: curlCode: 28, Timeout was reached; "
        f"Details: Operation timed out after 3{number} milliseconds with {number} bytes received "
        f"(Request ID: {number})"
        for number in (1, 2)
    )
    assert str(failure_of("s3a://states/votes/a", first, None)) == (
        "s3a://states/votes/a cannot be reached: AWS Error NETWORK_CONNECTION during UploadPart "
        "operation: curlCode: 28, Timeout was reached; Details: Operation timed out"
    )
    assert str(failure_of("", first, None)) == str(failure_of("", second, None))
