"""State on S3: what Spark needs for it that it does not bring, and Spark's settings.

The jars are no part of the package. `wallaroo fetch s3` has Maven bring the versions of `pom.xml`,
from where Maven's settings say, and compares them with `checksums.txt`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.object_store import endpoint, is_stored, region

_POM, _CHECKSUMS = (Path(__file__).with_name(name) for name in ("pom.xml", "checksums.txt"))
IN_IMAGE = Path(__file__).with_name("jars")
"""Where `wallaroo build --with s3` puts the jars."""
_COMMAND = "wallaroo fetch s3"


def jars_for(state: Path | None) -> tuple[Path, ...]:
    """The jars with which Spark reaches *state*: none for a directory.

    Raises:
        UsageError: They have not been fetched.
    """
    if not is_stored(state):
        return ()
    if not (found := jars()):
        msg = (
            f"{state} needs jars that have not been fetched: call `{_COMMAND}` once, or, for an "
            "image, `wallaroo build --with s3`"
        )
        raise UsageError(msg)
    return found


def jars() -> tuple[Path, ...]:
    """The jars, if they have been fetched, or are part of the image."""
    folder = IN_IMAGE if IN_IMAGE.is_dir() else _cache()
    return tuple(sorted(folder.glob("*.jar")))


def fetch() -> Path:
    """Fetch the jars to the user's cache, unless they are there; returns where.

    Raises:
        UsageError: Maven is not installed.
        RuntimeFailure: They cannot be fetched, or are not those of `checksums.txt`.
    """
    if (folder := _cache()).is_dir():
        return folder
    if (maven := shutil.which("mvn")) is None:
        msg = f"{_COMMAND} needs Maven, which is not on the PATH: install it (package maven)"
        raise UsageError(msg)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="s3-", dir=folder.parent) as scratch:
        fetched = Path(scratch, "jars")
        command = [maven, "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={fetched}", "-DincludeScope=runtime"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines() or ["it printed no error"]
            msg = f"Maven cannot fetch the jars for S3: {lines[0]}"
            raise RuntimeFailure(msg)
        _check(fetched)
        fetched.replace(folder)
    return folder


def settings_for(state: Path | None, scratch: Path | None) -> dict[str, str]:
    """Spark's settings for *state*: none for a directory.

    Credentials are not among them: the SDK finds them where `ObjectPath` does.

    Args:
        state: Where it is; None for a directory.
        scratch: Directory that buffers uploads; None for a temporary one on each machine.
    """
    if not is_stored(state):
        return {}
    s3a = {
        "aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
        ),
        # these would need clients that are not among the jars
        "optimized.copy.from.local.enabled": "false",
        "input.stream.type": "classic",
    }
    if scratch is not None:
        s3a["buffer.dir"] = str(scratch / "s3")
    if (url := endpoint()) is not None:
        s3a |= {"endpoint": url, "path.style.access": "true"}
    if (name := region()) is not None:
        s3a["endpoint.region"] = name
    return {
        "spark.sql.streaming.checkpointFileManagerClass": "wallaroo.realtime.ObjectStore",
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()},
    }


def _check(folder: Path) -> None:
    """Refuse jars that are not those of `checksums.txt`.

    Raises:
        RuntimeFailure: Some are not.
    """
    wanted = {name: digest for digest, name in map(str.split, _CHECKSUMS.read_text().splitlines())}
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    if differing := sorted(name for name, _ in found.items() ^ wanted.items()):
        msg = f"these jars for S3 are not those that this version of wallaroo needs: {differing}"
        raise RuntimeFailure(msg)


def _cache() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "wallaroo" / f"s3-{hashlib.sha256(_CHECKSUMS.read_bytes()).hexdigest()[:16]}"
