// The real-time query on Spark: all that knows Spark's interfaces for it.
//
// Spark moves chunks and keeps state; Python runs the application. A source reads frames from the
// process that runs the first stage, Spark's streaming shuffle carries them to the partition that
// their slot hashes to, and an operator hands them to that partition's process, or to those of all
// partitions on its machine. Only the frames that open and end an epoch touch Spark's state. The
// frames are described in `frames.py`.
package wallaroo.realtime

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util

import scala.reflect.{ClassTag, classTag}

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.sql.{Encoder, Encoders, ForeachWriter, SparkSession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoder
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoders.{BinaryEncoder, EncoderField}
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoders.{PrimitiveIntEncoder, ProductEncoder}
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoders.{PrimitiveLongEncoder, StringEncoder}
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader}
import org.apache.spark.sql.connector.read.{PartitionReaderFactory, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset, PartitionOffset}
import org.apache.spark.sql.connector.read.streaming.{SupportsRealTimeMode, SupportsRealTimeRead}
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead.RecordStatus
import org.apache.spark.sql.streaming.{MapState, OutputMode, StatefulProcessor, StreamingQuery}
import org.apache.spark.sql.streaming.{TTLConfig, TimeMode, TimerValues, Trigger, ValueState}
import org.apache.spark.sql.types.{BinaryType, IntegerType, Metadata, StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** What crosses from the first stage to a partition. */
case class Frame(slot: Int, data: Array[Byte])

/** The head of a bucket's log; `text` is what `Head.text` returns in `bucket_logs.py`. */
case class Head(text: String, count: Long, base_bytes: Long, tail_bytes: Long)

/** Where a row of a log belongs, as in `log_rows.py`. */
case class Place(place: Long)

/** A record of a log, or a part of it. */
case class Record(record: Array[Byte])

/** Encoders of these, written out: Spark derives them by Scala's reflection, in half a second. */
object Rows {
  val frame: Encoder[Frame] = product("slot" -> PrimitiveIntEncoder, "data" -> BinaryEncoder)
  val head: Encoder[Head] = product("text" -> StringEncoder, "count" -> PrimitiveLongEncoder,
    "base_bytes" -> PrimitiveLongEncoder, "tail_bytes" -> PrimitiveLongEncoder)
  val place: Encoder[Place] = product("place" -> PrimitiveLongEncoder)
  val record: Encoder[Record] = product("record" -> BinaryEncoder)

  private def product[T <: Product : ClassTag](fields: (String, AgnosticEncoder[_])*): Encoder[T] =
    ProductEncoder(
      classTag[T],
      fields.map { case (name, encoder) =>
        EncoderField(name, encoder, encoder.nullable, Metadata.empty)
      },
      None)
}

final class Provider extends TableProvider {
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = Frames.schema

  override def getTable(
      schema: StructType, partitioning: Array[Transform], options: util.Map[String, String]): Table =
    Frames
}

object Frames extends Table with SupportsRead {
  override val schema: StructType = StructType(Seq(
    StructField("slot", IntegerType, nullable = false),
    StructField("data", BinaryType, nullable = false)))

  override def name(): String = "wallaroo"

  override def capabilities(): util.Set[TableCapability] =
    util.EnumSet.of(TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new Scan {
    override def readSchema(): StructType = schema

    override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
      new Stream(Job.from(options.get("job")), options.get("initial"))
  }
}

final case class Position(override val json: String) extends Offset

final case class EndOfEpoch(json: String, executor: Option[String]) extends PartitionOffset

final case class Epoch(job: Job, start: String, at: Array[String]) extends InputPartition {
  override def preferredLocations(): Array[String] = at
}

/** The executor of this JVM, as Spark writes a location: its process is only there. */
object Executor {
  def here: Option[String] = {
    val id = SparkEnv.get.blockManager.blockManagerId
    if (id.isDriver) None else Some(s"executor_${id.host}_${id.executorId}")
  }
}

/** One partition: the order of what arrives is that of one reader. */
final class Stream(job: Job, initial: String)
    extends MicroBatchStream with SupportsRealTimeMode {
  @volatile private var reached: Offset = Position(initial)
  private var executor: Option[String] = None

  override def initialOffset(): Offset = Position(initial)

  /** Spark asks, but plans nothing by it: an epoch has no end before it ends. */
  override def latestOffset(): Offset = reached

  override def deserializeOffset(json: String): Offset = Position(json)

  override def planInputPartitions(start: Offset): Array[InputPartition] = {
    reached = start
    Array(Epoch(job, start.json, executor.toArray))
  }

  override def mergeOffsets(offsets: Array[PartitionOffset]): Offset = {
    val EndOfEpoch(end, at) = offsets.head: @unchecked
    executor = at
    reached = Position(end)
    reached
  }

  override def createReaderFactory(): PartitionReaderFactory = Factory

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
    throw new UnsupportedOperationException("this source is for real-time mode")

  override def commit(end: Offset): Unit = {}

  override def stop(): Unit = {}
}

object Factory extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val epoch = partition.asInstanceOf[Epoch]
    new Reader(Agent.bridge(epoch.job, Job.FirstStage).guarded(), epoch.start)
  }

  private def readResolve(): Any = Factory
}

/** Frames of one epoch: the process says when it ends, whatever time Spark gives it. */
final class Reader(bridge: Bridge, start: String) extends SupportsRealTimeRead[InternalRow] {
  private var row: InternalRow = _
  private var end: String = _

  bridge.send(start.getBytes(UTF_8))

  override def nextWithTimeout(
      startMs: java.lang.Long, timeoutMs: java.lang.Long): RecordStatus = {
    if (end == null) {
      val frame = ByteBuffer.wrap(bridge.receive())
      val slot = frame.getInt()
      val data = new Array[Byte](frame.remaining)
      frame.get(data)
      if (slot < 0) end = new String(data, UTF_8)
      else row = new GenericInternalRow(Array[Any](slot, data))
    }
    RecordStatus.newStatusWithoutArrivalTime(end == null)
  }

  override def next(): Boolean = nextWithTimeout(0L, 0L).hasRecord

  override def get(): InternalRow = row

  override def getOffset: PartitionOffset = {
    // Spark's own limit of a batch came first: state would be saved without what it belongs to
    if (end == null) throw new IllegalStateException("an epoch took longer than Spark's batch may")
    EndOfEpoch(end, Executor.here)
  }

  override def close(): Unit = {}
}

/** Hands frames to the process of a partition; at the ends of an epoch, also the logs of buckets. */
final class Partition(job: Job) extends StatefulProcessor[Int, Frame, Int] {
  @transient private var head: ValueState[Head] = _
  @transient private var log: MapState[Place, Record] = _
  @transient private var bridge: Bridge = _

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    head = getHandle.getValueState("head", Rows.head, TTLConfig.NONE)
    log = getHandle.getMapState("log", Rows.place, Rows.record, TTLConfig.NONE)
    // the driver calls this as well, to learn what state there is
    if (TaskContext.get() != null)
      bridge = Agent.bridge(job, TaskContext.getPartitionId()).guarded()
  }

  override def handleInputRows(
      slot: Int, frames: Iterator[Frame], timers: TimerValues): Iterator[Int] = {
    frames.foreach { case Frame(_, data) =>
      if (data(0) == 'm') handOut(ByteBuffer.wrap(data).position(1))
      else {
        bridge.send(data)
        data(0) match {
          case 'a' => bridge.opening.countDown()
          case 'o' => sendLog()
          case 'e' => save()
        }
      }
    }
    Iterator.empty
  }

  /** Send what is for several processes on this machine, in order. */
  private def handOut(frames: ByteBuffer): Unit =
    while (frames.hasRemaining) {
      val to = Agent.bridge(job, frames.getInt())
      val size = 4 + frames.getInt(frames.position)
      to.opening.await()
      to.send(frames.slice(frames.position, size))
      frames.position(frames.position + size)
    }

  /** Send the log of the bucket that is current. */
  private def sendLog(): Unit = {
    if (head.exists()) {
      val Head(text, count, base, tail) = head.get()
      val named = text.getBytes(UTF_8)
      bridge.send(ByteBuffer.allocate(25 + named.length)
        .put('h'.toByte).putLong(count).putLong(base).putLong(tail).put(named).array())
      log.iterator().foreach { case (Place(place), Record(record)) =>
        bridge.send(ByteBuffer.allocate(9 + record.length)
          .put('r'.toByte).putLong(place).put(record).array())
      }
    }
    bridge.send(Array('d'.toByte))
  }

  /** Save what the process adds to the log of the bucket that is current, row by row. */
  private def save(): Unit = {
    val answer = ByteBuffer.wrap(bridge.receive())
    if (answer.get() != 0) log.clear() // all entities follow
    val rows = answer.getInt()
    val (count, base, tail) = (answer.getLong(), answer.getLong(), answer.getLong())
    val text = new String(rest(answer), UTF_8)
    for (_ <- 0 until rows) {
      val row = ByteBuffer.wrap(bridge.receive())
      log.updateValue(Place(row.getLong()), Record(rest(row)))
    }
    head.update(Head(text, count, base, tail))
  }

  private def rest(frame: ByteBuffer): Array[Byte] = {
    val data = new Array[Byte](frame.remaining)
    frame.get(data)
    data
  }
}

/** Nothing reaches it; Spark wants a sink that its real-time mode knows. */
final class Nowhere extends ForeachWriter[Int] {
  override def open(partition: Long, epoch: Long): Boolean = true

  override def process(value: Int): Unit = {}

  override def close(error: Throwable): Unit = {}
}

/** What Python calls. */
object Query {
  /** Start the query.
    *
    * @param attempt number of the query among those that the driver has started
    * @param pickled the job of its processes
    * @param partitions partitions of the state
    * @param initial position of a new checkpoint
    * @param longestMs longest time of an epoch
    */
  def start(
      session: SparkSession,
      name: String,
      attempt: Int,
      pickled: Array[Byte],
      partitions: Int,
      checkpoint: String,
      initial: String,
      longestMs: Long): StreamingQuery = {
    val job = Job(attempt, pickled)
    if (session.sparkContext.isLocal) // they load while Spark plans
      (Job.FirstStage until partitions).foreach(Agent.bridge(job, _))
    session.readStream
      .format(classOf[Provider].getName)
      .option("job", job.text)
      .option("initial", initial)
      .load()
      .groupBy("slot")
      .as[Int, Frame](Encoders.scalaInt, Rows.frame)
      .transformWithState(
        new Partition(job), TimeMode.None(), OutputMode.Update())(Encoders.scalaInt)
      .writeStream
      .queryName(name)
      .outputMode(OutputMode.Update())
      .option("checkpointLocation", checkpoint)
      .trigger(Trigger.RealTime(longestMs))
      .foreach(new Nowhere)
      .start()
  }
}
