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
    # Python reads the state as well
    **dict.fromkeys(
        ("spark.hadoop.fs.s3a.endpoint", "spark.hadoop.fs.s3a.endpoint.region"),
        "set the environment variables AWS_ENDPOINT_URL_S3 and AWS_REGION",
    ),
    # Java is started directly, and not by Spark's launcher, which reads these
    "spark.driver.defaultJavaOptions": "use spark.driver.extraJavaOptions",
    "spark.driver.extraClassPath": "use spark.jars",
    "spark.driver.extraLibraryPath": "set the environment variable LD_LIBRARY_PATH",
}
"""What to do instead of each setting that would be ignored, or contradict an option."""
_SECRET = re.compile(r"spark\.hadoop\.fs\.s3a\.(?:.+\.)?(?:access\.key|secret\.key|session\.token)")
_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or use a profile or a role"
)
_MEMORY, _MEMORY_SIZE = "spark.driver.memory", re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_KIB = {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}
_LEAST_KIB = 512 * 1024
"""Spark refuses to start with less than 450 MiB, of which Java itself keeps a part."""


def check(settings: Mapping[str, str]) -> None:
    """Refuse what would have no effect in *settings*, or the wrong one.

    Raises:
        UsageError: A setting is refused; the message says what to do instead.
    """
    for name in filter(_SECRET.fullmatch, settings):
        msg = f"--conf {name} cannot be set: others can read it there; {_CREDENTIALS}"
        raise UsageError(msg)
    for name, instead in _INSTEAD.items():
        if name in settings:
            msg = f"--conf {name}={settings[name]} cannot be set: {instead}"
            raise UsageError(msg)


def driver_memory(settings: Mapping[str, str], default: str) -> str:
    """The heap size of the driver's Java, in the format of `-Xmx`.

    Args:
        settings: Settings of the user.
        default: What it is without `spark.driver.memory`: the value of `--driver-memory`.

    Raises:
        UsageError: The value is not a valid size, or less than Spark needs.

    Example:
        >>> driver_memory({"spark.driver.memory": "2gb"}, "1g"), driver_memory({}, "1g")
        ('2g', '1g')
    """
    size = settings.get(_MEMORY)
    option = f"--driver-memory={default}" if size is None else f"--conf {_MEMORY}={size}"
    if (match := _MEMORY_SIZE.fullmatch(default if size is None else size)) is None:
        msg = f"{option}: a size is a number of MiB, or one with k, m, g or t"
        raise UsageError(msg)
    number, unit = int(match[1]), match[2].lower() or "m"  # as Spark reads a number, not as Java
    if number * _KIB[unit] < _LEAST_KIB:
        msg = f"{option} is too little: Spark needs at least {_LEAST_KIB // 1024}m"
        raise UsageError(msg)
    return f"{number}{unit}"
