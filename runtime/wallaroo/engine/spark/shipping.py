"""Distributes an application to workers on other machines.

With local Spark, workers read the application from its directory. With any other master, the
directory is shipped as an archive, which Spark unpacks for each worker. The runtime itself must be
installed on the workers, as must Spark and Arrow.
"""

from __future__ import annotations

import dataclasses
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.loading.loader import ApplicationRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "wallaroo-application"
_SHIPPED = f"shipped:{_NAME}"
_NOT_SHIPPED = {".wallaroo", "__pycache__"}


def ship(session: SparkSession, application: ApplicationRef, scratch: Path) -> ApplicationRef:
    """Make *application* available to the workers of *session*.

    Args:
        session: The Spark session.
        application: The application on the driver.
        scratch: Directory for the archive.

    Returns:
        A reference that workers pass to `locate`.
    """
    directory = application.directory
    if session.sparkContext.master.split("[")[0] == "local" or directory is None:
        return application.absolute()
    archive = scratch / f"{_NAME}.zip"
    _archive(directory, archive)
    session.sparkContext.addArchive(f"{archive}#{_NAME}")
    inside = "" if application.module == "application" else f"/{application.module}.py"
    return dataclasses.replace(application, app=_SHIPPED + inside)


def _archive(directory: Path, archive: Path) -> None:
    """Write the files in *directory* to *archive*, except state directories."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for place, folders, files in os.walk(directory):
            folders[:] = [one for one in folders if one not in _NOT_SHIPPED]
            for name in files:
                file = Path(place, name)
                if file.is_file():  # no socket
                    out.write(file, file.relative_to(directory))


def locate(application: ApplicationRef, files: str | None = None) -> ApplicationRef:
    """Convert *application*, a result of `ship`, to its path on this worker.

    Args:
        application: The result of `ship`.
        files: Directory of distributed files; None in a worker of PySpark, which knows it.
    """
    if not application.app.startswith(_SHIPPED):
        return application
    directory = _distributed() if files is None else str(Path(files, _NAME))
    path = directory + application.app.removeprefix(_SHIPPED)
    return dataclasses.replace(application, app=path)


def _distributed() -> str:
    from pyspark.core.files import SparkFiles

    return str(SparkFiles.get(_NAME))
