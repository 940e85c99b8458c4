"""Writes objects through Spark's Java, and prints what has become of them.

Usage: writers.py FOLDER WRITERS NAMES
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

from py4j.protocol import Py4JJavaError

from wallaroo.engine.realtime.java import claimed
from wallaroo.engine.realtime.offline_state import session_for
from wallaroo.system.object_store import ObjectPath


def main() -> None:
    """Write."""
    folder = ObjectPath.at(sys.argv[1])
    writers, names = map(int, sys.argv[2:])
    with session_for("writers", 1, state=folder) as session:
        java: Any = session._jvm
        settings = session._jsc.hadoopConfiguration()

        def path(name: str) -> Any:
            return java.org.apache.hadoop.fs.Path(str(folder / name))

        def stream(name: str, text: str, *, replaces: bool) -> Any:
            made = java.wallaroo.realtime.ObjectStore(path(name), settings)
            opened = made.createAtomic(path(name), replaces)
            opened.write(text.encode())
            return opened

        def wins(writer: int, name: int) -> str | None:
            opened = stream(f"raced/{name}", f"{writer}", replaces=False)
            try:
                opened.close()
            except Py4JJavaError as error:
                return str(error.java_exception.getClass().getSimpleName())
            return None

        with ThreadPoolExecutor(writers) as pool:
            turns = [*product(range(names), range(writers))]
            outcomes = [*pool.map(lambda turn: wins(turn[1], turn[0]), turns)]
        for name, replaces in (("cancelled", False), ("cancelled-too", True)):
            opened = stream(name, "text", replaces=replaces)
            opened.cancel()
            opened.close()
        for text in ("first", "second"):
            stream("replaced", text, replaces=True).close()
        claims = [claimed(session, str(folder / "owner"), t, replaces=t == "c") for t in "abc"]
    print(
        json.dumps(
            {"outcomes": [(*t, o) for t, o in zip(turns, outcomes, strict=True)], "claims": claims}
        )
    )


if __name__ == "__main__":
    main()
