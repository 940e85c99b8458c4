"""Spark settings that users may not choose, because the runtime has chosen them already."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wallaroo.errors import UsageError

_INSTEAD: Mapping[str, str] = {
    "spark.master": "use --master",
    "spark.app.name": "it is the name of the application",
    "spark.executor.instances": "use --workers",
    "spark.sql.shuffle.partitions": "use --partitions",
    "spark.submit.deployMode": "the driver runs where the command runs",
    # Java is started directly, and not by Spark's launcher, which reads these
    "spark.driver.defaultJavaOptions": "use spark.driver.extraJavaOptions",
    "spark.driver.extraClassPath": "use spark.jars",
    "spark.driver.extraLibraryPath": "set the environment variable LD_LIBRARY_PATH",
}
"""What to do instead of each setting that would be ignored, or contradict an option."""
_MEMORY, _MEMORY_SIZE = "spark.driver.memory", re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)


def check(settings: Mapping[str, str]) -> None:
    """Refuse what would have no effect in *settings*, or the wrong one.

    Raises:
        UsageError: A setting is refused; the message says what to do instead.
    """
    for name, instead in _INSTEAD.items():
        if name in settings:
            msg = f"--conf {name}={settings[name]} cannot be set: {instead}"
            raise UsageError(msg)


def driver_memory(settings: Mapping[str, str], default: str) -> str:
    """The heap size of the driver's Java, in the format of `-Xmx`.

    Args:
        settings: Settings of the user.
        default: What it is without `spark.driver.memory`.

    Raises:
        UsageError: The value is not a valid size.

    Example:
        >>> driver_memory({"spark.driver.memory": "2gb"}, "1g"), driver_memory({}, "1g")
        ('2g', '1g')
    """
    if (size := settings.get(_MEMORY)) is None:
        return default
    if (match := _MEMORY_SIZE.fullmatch(size)) is None or not int(match[1]):
        msg = f"--conf {_MEMORY}={size}: a size is a number of MiB, or one with k, m, g or t"
        raise UsageError(msg)
    return match[1] + (match[2].lower() or "m")  # as Spark reads a number, and Java does not
