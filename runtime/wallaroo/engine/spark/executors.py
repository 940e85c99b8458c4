"""Scales the executors of a running session.

Additional executors are requested; surplus ones are decommissioned: they finish their tasks and get
no new ones. Nothing is lost with an executor: state is in the checkpoint, and the journal has the
messages.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger("wallaroo")


class Executors:
    """The executors of a session whose master can start and stop them.

    Args:
        session: The Spark session.
        wanted: Initial number of executors.
    """

    def __init__(self, session: SparkSession, wanted: int) -> None:
        self._jvm: Any = session._jvm
        self._context = session._jsc.sc()
        self._wanted = wanted
        self._lock = threading.Lock()

    @property
    def wanted(self) -> int:
        """The requested number of executors."""
        return self._wanted

    def running(self) -> list[str]:
        """Return the names of active executors, the oldest first."""
        backend = self._context.schedulerBackend()
        ids = self._context.getExecutorIds()
        names = [ids.apply(place) for place in range(ids.size())]
        return sorted(filter(backend.isExecutorActive, names), key=lambda name: (len(name), name))

    def slots(self) -> int:
        """Return the number of tasks that active executors run concurrently."""
        profile = self._context.resourceProfileManager().defaultResourceProfile()
        return int(self._context.schedulerBackend().maxNumConcurrentTasks(profile))

    def want(self, number: int) -> None:
        """Request *number* executors in total, which start as soon as the cluster permits."""
        with self._lock:
            self._request(number)
            self._wanted = number

    def keep(self, names: Collection[str] | None) -> None:
        """Have no executors but *names*; with None, as many as are wanted again."""
        with self._lock:
            running = self.running()
            others = [] if names is None else [name for name in running if name not in names]
            most = self._wanted if names is None else len(running) - len(others)
            self._request(min(most, self._wanted))
            if others:
                self._decommission(others)

    def remove_surplus(self) -> None:
        """Decommission surplus executors, the newest first; best called between epochs."""
        with self._lock:
            if surplus := self.running()[self._wanted :]:
                log.info("executors leave", executors=surplus, wanted=self._wanted)
                self._decommission(surplus)

    def _request(self, number: int) -> None:
        none = self._jvm.PythonUtils.toScalaMap(self._jvm.java.util.HashMap())
        self._context.requestTotalExecutors(number, 0, none)

    def _decommission(self, names: list[str]) -> None:
        from pyspark import SparkContext

        jvm, gateway = self._jvm, SparkContext._gateway
        assert gateway is not None
        reason = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
            "fewer workers were requested", jvm.scala.Option.empty()
        )
        pairs = gateway.new_array(jvm.scala.Tuple2, len(names))
        for place, name in enumerate(names):
            pairs[place] = jvm.scala.Tuple2(name, reason)
        self._context.schedulerBackend().decommissionExecutors(pairs, False, False)
