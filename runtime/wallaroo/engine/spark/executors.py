"""The executors of a running session: how many there are, and how many there should be.

More are asked for; fewer are decommissioned, which lets their tasks end and hands out no new ones.
What a leaving executor held is not lost: state is in the checkpoint, and a batch reads its messages
again if it must.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger("wallaroo")


def local_workers(session: SparkSession) -> int:
    """Tasks that Spark runs at a time now, where its master is local: none once it is gone."""
    from py4j.protocol import Py4JError

    try:
        context = session._jsc.sc()
        profile = context.resourceProfileManager().defaultResourceProfile()
        return int(context.schedulerBackend().maxNumConcurrentTasks(profile))
    except (Py4JError, OSError):  # its virtual machine has ended
        return 0


def start_workers(session: SparkSession) -> None:
    """Start the workers of local Spark, in a thread: else the first batch waits for them."""

    def start() -> None:
        with contextlib.suppress(Exception):  # a batch will tell what is wrong with workers
            rows = session.range(local_workers(session))
            rows.mapInArrow(lambda batches: batches, rows.schema).collect()

    threading.Thread(target=start, name="workers", daemon=True).start()


class Executors:
    """Executors of a session whose master can start and stop them.

    Args:
        session: Spark.
        wanted: How many it was started with.
    """

    def __init__(self, session: SparkSession, wanted: int) -> None:
        self._jvm: Any = session._jvm
        self._context = session._jsc.sc()
        self._wanted = wanted
        self._lock = threading.Lock()

    @property
    def wanted(self) -> int:
        """How many there should be."""
        return self._wanted

    def running(self) -> list[str]:
        """Names of those that take tasks, the oldest first."""
        backend = self._context.schedulerBackend()
        known = self._context.getExecutorIds()
        names = [known.apply(place) for place in range(known.size())]
        return sorted(filter(backend.isExecutorActive, names), key=lambda name: (len(name), name))

    def want(self, number: int) -> None:
        """Let there be *number* executors, as soon as the cluster has them."""
        with self._lock:
            none = self._jvm.PythonUtils.toScalaMap(self._jvm.java.util.HashMap())
            self._context.requestTotalExecutors(number, 0, none)
            self._wanted = number

    def remove_surplus(self) -> None:
        """Decommission the newest of those that are more than wanted; at best between batches."""
        with self._lock:
            if surplus := self.running()[self._wanted :]:
                log.info("executors leave", executors=surplus, wanted=self._wanted)
                self._decommission(surplus)

    def _decommission(self, names: list[str]) -> None:
        from pyspark import SparkContext

        jvm, gateway = self._jvm, SparkContext._gateway
        assert gateway is not None
        why = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
            "fewer workers are wanted", jvm.scala.Option.empty()
        )
        pairs = gateway.new_array(jvm.scala.Tuple2, len(names))
        for place, name in enumerate(names):
            pairs[place] = jvm.scala.Tuple2(name, why)
        self._context.schedulerBackend().decommissionExecutors(pairs, False, False)
