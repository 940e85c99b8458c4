"""What Spark's Python workers are forked from."""

from __future__ import annotations

import subprocess
import sys

_FORK = """
import os, sys
from wallaroo.engine.spark.daemon import preload

preload()
loaded = set(sys.modules)
child = os.fork()
if not child:
    import pyarrow as pa
    import pyarrow.compute as pc
    import wallaroo.engine.microbatch.source
    fresh = [name for name in set(sys.modules) - loaded if name.startswith("wallaroo")]
    total = pc.sum(pa.chunked_array([pa.array(range(100_000))] * 8)).as_py()
    os._exit(0 if not fresh and total == 8 * sum(range(100_000)) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_worker_has_what_it_needs_and_can_use_it_behind_the_fork() -> None:
    subprocess.run([sys.executable, "-c", _FORK], check=True, timeout=60)
