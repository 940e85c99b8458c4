"""Makes the golden state directories of the present format: `python -m tests.golden.make`.

To be called when the format has been raised, or an application has been added; directories that are
there are left as they are.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.golden import ALL, PRESENT, Entity, Golden, entities
from tests.spark.in_process import InProcess, launch
from wallaroo.run.state.classes import check_state_classes
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.transfer import written_entity

_OF_A_RUN = {"lock", "gateway.lock", "claim.json"}
"""Files of one run, which the next one makes again."""


def make(on_spark: InProcess, name: str, golden: Golden, scratch: Path) -> None:
    """Make the golden state directory *name*."""
    directory = scratch / name
    application = golden.application.load()
    state = StateDirectory(directory, application.name, 1)
    check_state_classes(directory, application)
    buckets = state.fixed.buckets
    on_spark.run(golden.application, golden.before, workers=1, directory=directory, buckets=buckets)
    state.close()
    PRESENT.mkdir(exist_ok=True)
    _export(entities(on_spark.session, directory, golden), PRESENT, name)
    pack(directory, PRESENT / f"{name}.tar.gz")


def _export(found: Sequence[Entity], folder: Path, name: str) -> None:
    assert found, f"{name} has no state"
    for form, ending in (("json", "jsonl"), ("pickle", "pickle")):
        data = [written_entity(*entity, form) for entity in found]  # type: ignore[arg-type]
        carried = [written for written in data if b"$repr" not in written]
        (folder / f"{name}.{ending}").write_bytes(b"".join(carried))


def pack(directory: Path, file: Path) -> None:
    """Pack a state directory as *file*."""
    with tarfile.open(file, "w:gz") as archive:
        archive.add(directory, ".", filter=_kept)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """*member* as it goes into an archive, without what tells of this machine."""
    if Path(member.name).name in _OF_A_RUN or not (member.isfile() or member.isdir()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    """Make those that are not there."""
    missing = {name: ALL[name] for name in ALL if not (PRESENT / f"{name}.tar.gz").exists()}
    scratch = Path(tempfile.mkdtemp(prefix="golden-"))
    spark = launch("golden", scratch)
    try:
        on_spark = InProcess(spark.session, lambda: scratch)
        for name, golden in missing.items():
            make(on_spark, name, golden, scratch)
            print(f"made {PRESENT.name}/{name}")
    finally:
        spark.stop()
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
