"""Takes out of an installation what no application of this runtime reaches.

Usage: [WITH=s3] trim.py SITE_PACKAGES

What goes: Spark's machine learning, graphs, Hive, Spark Connect and shell; native code for other
systems than Linux, and for other processors than this one; tests, headers, sources for C.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

PROCESSOR = platform.machine()
_JAVA_NAME = {"x86_64": "amd64|x86_64|x86-64|linux64", "aarch64": "aarch64|aarch_64|arm64"}[
    PROCESSOR
]

JARS = (
    "spark-connect_*",
    "spark-connect-*",
    "spark-mllib_*",
    "spark-mllib-local_*",
    "spark-graphx_*",
    "spark-hive_*",
    "spark-hive-thriftserver_*",
    "spark-repl_*",
    "spark-yarn_*",
    "spark-pipelines_*",
    "breeze*",
    "spire*",
    "cats-kernel*",
    "algebra_*",
    "lapack-*",
    "blas-*",
    "arpack*",
    "JTransforms*",
    "JLargeArrays*",
    "jama*",
    "pmml-model*",
    "netlib*",
    "dev.ludovic*",
    "bundle-*",
    "hive-*",
    "datanucleus-*",
    "derby*",
    "jdo-api*",
    "javax.jdo*",
    "bonecp*",
    "HikariCP*",
    "libfb303*",
    "libthrift*",
    "ST4*",
    "antlr-runtime-*",
    "jta-*",
    "transaction-api*",
    "jpam*",
    "super-csv*",
    "opencsv*",
    "stax-api*",
    "json-1*",
    "scala-compiler-*",
    "jline-*",
    "jts-core*",
    "curator-*",
    "zookeeper-*",
    "hadoop-yarn-*",
    "hadoop-client-minicluster*",
    "*-osx-*",
    "*-windows-*",
)
"""Jars, by patterns of their names."""

NATIVE = ("rocksdbjni-*", "zstd-jni-*", "snappy-java-*", "lz4-java-*", "leveldbjni-*", "jansi-*")
"""Jars with native code for many systems."""

PYTHON = (
    "*/tests",
    "*/test",
    "pyarrow/include",
    "pyarrow/src",
    "pyarrow/includes",
    "pyarrow/*.pxi",
    "pyarrow/*.pxd",
    "pyarrow/*.pyx",
    "pyarrow/libarrow_python.so",
    "pyarrow/libarrow_python.so.*.*.*",
    "pyarrow/*flight*",
    "pyarrow/libarrow_python_parquet_encryption.so",
    "pyarrow/libarrow_python_parquet_encryption.so.*.*.*",
    "numpy/*/tests",
    "numpy/f2py",
    "numpy/*/include",
    "numpy/*/lib/*.a",
    "pyspark/examples",
    "pyspark/data",
    "pyspark/bin",
    "pyspark/sbin",
    "pyspark/python",
    "pyspark/pandas",
    "pyspark/ml",
    "pyspark/mllib",
    "kubernetes/docs",
    "kubernetes/e2e_test",
    "kubernetes/*/test",
)
"""Files and directories, by patterns below the packages' directory."""

S3 = ("pyarrow/libarrow_s3*", "pyarrow/_s3fs*")
"""What only state on an object store reaches."""


def main() -> None:
    """Trim."""
    packages = Path(sys.argv[1])
    has_s3 = "s3" in os.environ.get("WITH", "").split()
    for pattern in PYTHON if has_s3 else (*PYTHON, *S3):
        for path in packages.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    jars = packages / "pyspark" / "jars"
    for jar in jars.glob("*.jar"):
        if any(fnmatch(jar.name, pattern) for pattern in JARS) or _foreign(jar.name):
            jar.unlink()
        elif any(fnmatch(jar.name, pattern) for pattern in NATIVE):
            _repack(jar)


def _foreign(name: str) -> bool:
    """Whether a jar holds native code for another processor alone."""
    ours = _JAVA_NAME.split("|")
    theirs = [p for p in ("x86_64", "aarch_64", "riscv64", "s390_64") if f"linux-{p}" in name]
    return bool(theirs) and not any(p in ours for p in theirs)


def _repack(jar: Path) -> None:
    """Leave only the native code for this machine in *jar*."""
    fresh = jar.with_suffix(".new")
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if not _is_native(entry.filename) or _is_ours(entry.filename):
                new.writestr(entry, old.read(entry))
    fresh.replace(jar)


def _is_native(name: str) -> bool:
    return name.endswith((".so", ".dll", ".jnilib", ".dylib", ".a"))


def _is_ours(name: str) -> bool:
    lower = name.lower()
    return (
        "linux" in lower
        and "musl" not in lower
        and "android" not in lower
        and any(processor in lower for processor in _JAVA_NAME.split("|"))
    )


if __name__ == "__main__":
    main()
