"""Import of entities into the state of a query that does not run, as a separate batch of the query.

The batch takes no messages, but its offset differs from that of the last batch; so Spark runs it
once, completely or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from wallaroo.dataflow.bucket_logs import Head, log_name
from wallaroo.dataflow.packing import Packed
from wallaroo.dataflow.program import Program
from wallaroo.engine.microbatch.processor import StoredLog
from wallaroo.engine.microbatch.source import SCHEMA, rows
from wallaroo.engine.spark.checkpoint.partitions import last_batch
from wallaroo.engine.spark.errors import cause_of
from wallaroo.engine.spark.slots import slots_for
from wallaroo.engine.spark.task_epoch import task_epoch
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME = "import"
"""Key of the import's name in the offset after it."""


def progress(checkpoint: Path, name: str) -> Literal["none", "begun", "done"]:
    """How far the import *name* into the state in *checkpoint* is; it would be the last batch.

    Args:
        checkpoint: Directory of the checkpoint of a query that has planned a batch.
        name: Name of the import.

    Raises:
        RuntimeFailure: Another batch has begun but not ended: only the query itself can end it.
    """
    batch, committed, _ = last_batch(checkpoint)
    offset = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
    if json.loads(offset).get(_NAME) == name:
        return "done" if committed else "begun"
    if not committed:
        msg = (
            f"the last batch of {checkpoint} (number {batch}) has begun and not ended: start the "
            "application once more, stop it in good order, and import then"
        )
        raise RuntimeFailure(msg)
    return "none"


def write_rows(program: Program, packed: Iterable[Sequence[Packed]], file: Path) -> None:
    """Write the records to append to logs of buckets to *file*, for `import_state`."""
    slots = slots_for(program.buckets)
    schema = rows([], slots, 0).schema
    with pa.ipc.new_stream(str(file), schema) as writer:
        for batch in packed:
            writer.write_batch(rows(batch, slots, 0))


def import_state(
    session: SparkSession, checkpoint: Path, levels: int, file: Path, name: str
) -> None:
    """Append to the logs of buckets; a call after an interrupted one finishes it.

    Args:
        session: Spark.
        checkpoint: Directory of the query's checkpoint; the query must not run.
        levels: Levels of the program.
        file: What `write_rows` wrote: records for logs in `blob`, as an Arrow stream.
        name: Name of the import.

    Raises:
        RuntimeFailure: Spark failed.
    """
    try:
        session.dataSource.register(_ImportSource)
        source = session.readStream.format(_ImportSource.name())
        frame = source.option("file", str(file)).option("name", name).load()
        for level in range(1, levels + 1):
            frame = frame.groupBy("slot").transformWithState(
                _Appending(level), SCHEMA, outputMode="append", timeMode="none"
            )
        query = (
            frame.writeStream.outputMode("append")
            .option("checkpointLocation", str(checkpoint))
            .foreachBatch(_run)
            .start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
    except Exception as error:
        msg = f"Spark did not import into {checkpoint}: {cause_of(str(error))}"
        raise RuntimeFailure(msg) from error


def _run(frame: DataFrame, _batch: int) -> None:
    frame.collect()


class _ImportSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._file, self._import = options["file"], options["name"]

    @classmethod
    def name(cls) -> str:
        return "wallaroo-import"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return _ImportReader(self._file, self._import)


class _ImportReader(DataSourceStreamReader):
    def __init__(self, file: str, name: str) -> None:
        self._file, self._import = file, name

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"offset": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802
        return {**start, _NAME: self._import}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        return [InputPartition(self._file)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(partition.value) as stream:
            yield from stream


class _Appending(StatefulProcessor):
    """Appends each row of its level to the log of the row's bucket; other rows pass through."""

    def __init__(self, level: int) -> None:
        self._level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._log = StoredLog(handle)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        for row in rows:
            if row.level == self._level:
                record = bytes(row.blob)
                head, epoch = self._log.head(), task_epoch()
                if head is None:
                    head = Head.of(log_name(epoch.run, self._level, key[0]))
                self._log.append(head.appended(record, epoch.number), record)
            else:
                yield row

    def close(self) -> None:
        pass
