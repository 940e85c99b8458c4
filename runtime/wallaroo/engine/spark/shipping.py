"""Getting an application to workers on other machines.

On local Spark the workers read the application where it is. Any other master gets the application's
directory as an archive, which Spark unpacks beside each worker. The runtime itself, as Spark and
Arrow, must be installed where the workers run.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.model.loader import ApplicationRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "wallaroo-application"
_SHIPPED = f"shipped:{_NAME}"


def ship(session: SparkSession, application: ApplicationRef, scratch: Path) -> ApplicationRef:
    """Make *application* reachable for the workers of *session*.

    Args:
        session: Spark.
        application: The application as the driver finds it.
        scratch: Directory for the archive.

    Returns:
        What workers pass to `found`.
    """
    directory = application.directory
    if session.sparkContext.master.split("[")[0] == "local" or directory is None:
        return application.absolute()
    archive = shutil.make_archive(str(scratch / _NAME), "zip", directory)
    session.sparkContext.addArchive(f"{archive}#{_NAME}")
    inside = "" if application.module == "application" else f"/{application.module}.py"
    return dataclasses.replace(application, app=_SHIPPED + inside)


def found(application: ApplicationRef) -> ApplicationRef:
    """In a worker: *application*, which `ship` returned, with the path that it has there."""
    if not application.app.startswith(_SHIPPED):
        return application
    from pyspark.core.files import SparkFiles

    path = SparkFiles.get(_NAME) + application.app.removeprefix(_SHIPPED)
    return dataclasses.replace(application, app=path)
