// The Python processes of a query, on the machine of the task that needs them.
package wallaroo.realtime

import java.io.{BufferedOutputStream, DataOutputStream, IOException}
import java.net.{StandardProtocolFamily, UnixDomainSocketAddress}
import java.nio.ByteBuffer
import java.nio.channels.{ClosedByInterruptException, ClosedChannelException}
import java.nio.channels.{ServerSocketChannel, SocketChannel}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Path
import java.util
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, CountDownLatch, TimeUnit}
import java.util.concurrent.TimeoutException

import org.apache.spark.{SparkFiles, TaskContext}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.sql.execution.streaming.state.Ahead

/** What the processes of one query run; `attempt` is negative for one that only warms up. */
final case class Job(attempt: Int, pickled: Array[Byte]) {
  /** As an option of a source. */
  def text: String = s"$attempt ${util.Base64.getEncoder.encodeToString(pickled)}"
}

object Job {
  /** In the place of a partition's number. */
  val FirstStage: Int = -1

  def from(text: String): Job = {
    val Array(attempt, pickled) = text.split(' ')
    Job(attempt.toInt, util.Base64.getDecoder.decode(pickled))
  }
}

/** A process of a query, and the connection to it, which is kept from one epoch to the next.
  * Frames follow their length.
  */
final class Bridge(
    val role: Int, name: String, val warmsUp: Boolean, listener: ServerSocketChannel) {
  /** The exit code, negative for a signal. */
  val ended = new CompletableFuture[Integer]
  /** Zero once it has been told from where changes apply, and can take chunks. */
  val opening = new CountDownLatch(1)
  /** Whether it is to end. */
  @volatile var isKilled = false
  private val incoming = ByteBuffer.allocateDirect(1 << 16).flip()
  @volatile private var accepted: Option[SocketChannel] = None
  private lazy val channel: SocketChannel =
    try {
      accepted = Some(listener.accept())
      accepted.get
    } catch { case _: ClosedChannelException => failed() }
    finally listener.close()

  ended.thenRun { () =>
    opening.countDown() // nobody is to wait for it
    listener.close() // it does not connect any more
    accepted.foreach(_.close())
  }

  def send(data: Array[Byte]): Unit =
    send(ByteBuffer.allocate(4).putInt(data.length).flip(), ByteBuffer.wrap(data))

  /** Send `parts`, which are a frame and its length; tasks of other partitions send as well. */
  def send(parts: ByteBuffer*): Unit = synchronized {
    val all = parts.toArray
    try while (all.last.hasRemaining) channel.write(all)
    catch { case error: IOException => broken(error) }
  }

  def receive(): Array[Byte] = {
    fill(4)
    val data = new Array[Byte](incoming.getInt())
    var done = math.min(data.length, incoming.remaining)
    incoming.get(data, 0, done)
    while (done < data.length) done += read(ByteBuffer.wrap(data, done, data.length - done))
    data
  }

  /** Kill the process if the task that runs now fails: the query is started again then. */
  def guarded(): Bridge = {
    TaskContext.get().addTaskFailureListener((_: TaskContext, _: Throwable) => kill())
    this
  }

  def kill(): Unit = {
    isKilled = true
    Agent.kill(name)
  }

  private def fill(size: Int): Unit =
    while (incoming.remaining < size) {
      incoming.compact()
      try read(incoming)
      finally incoming.flip()
    }

  private def read(target: ByteBuffer): Int = {
    val count =
      try channel.read(target)
      catch { case error: IOException => broken(error) }
    if (count < 0) failed()
    count
  }

  private def broken(error: IOException): Nothing = error match {
    case _: ClosedByInterruptException => throw error // Spark ends the task
    case _ => failed()
  }

  /** The driver says it in words. */
  private def failed(): Nothing = {
    val code =
      try ended.get(Agent.EndSeconds, TimeUnit.SECONDS).toString
      catch { case _: TimeoutException => "?" }
    if (code == Agent.CutOff.toString) Thread.sleep(Agent.CauseFirstMs)
    throw new IllegalStateException(s"process $role ended: $code")
  }
}

/** The parent of the processes on this machine, which forks them; `agent.py` describes it. */
final class Agent(python: String, environment: Seq[(String, String)]) {
  private val process = {
    val builder = new ProcessBuilder(python, "-m", "wallaroo.engine.realtime.agent")
    environment.foreach { case (name, value) => builder.environment().put(name, value) }
    builder.redirectError(ProcessBuilder.Redirect.INHERIT).start()
  }
  private val commands = new DataOutputStream(new BufferedOutputStream(process.getOutputStream))
  private val directory = new CompletableFuture[String]
  private val bridges = new ConcurrentHashMap[String, Bridge]
  @volatile private var isGone = false
  private val thread = new Thread(() => listen(), "wallaroo-agent")
  thread.setDaemon(true)
  thread.start()

  def isAlive: Boolean = !isGone && process.isAlive

  def start(job: Job, role: Int): Bridge = {
    val name = s"${job.attempt}.$role"
    val path = s"${directory.get(Agent.StartSeconds, TimeUnit.SECONDS)}/$name"
    val listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX)
    listener.bind(UnixDomainSocketAddress.of(path))
    val bridge = new Bridge(role, name, job.attempt < 0, listener)
    bridges.put(name, bridge)
    val files = Path.of(SparkFiles.getRootDirectory()).toAbsolutePath
    write(s"start\u0000$name\u0000$role\u0000$path\u0000$files".getBytes(UTF_8), job.pickled)
    if (isGone) bridge.ended.complete(Agent.Killed)
    bridge
  }

  def kill(name: String): Unit =
    if (bridges.containsKey(name)) write(s"kill\u0000$name".getBytes(UTF_8))

  /** End it, and its processes. */
  def stop(): Unit = {
    try commands.close()
    catch { case _: IOException => } // it has ended
    process.waitFor(Agent.EndSeconds, TimeUnit.SECONDS)
  }

  private def write(frames: Array[Byte]*): Unit = synchronized {
    try {
      frames.foreach { frame =>
        commands.writeInt(frame.length)
        commands.write(frame)
      }
      commands.flush()
    } catch { case _: IOException => } // it has ended, and its processes with it
  }

  private def listen(): Unit = {
    val reports = process.inputReader(UTF_8)
    try {
      Option(reports.readLine()).foreach(directory.complete)
      var line = reports.readLine()
      while (line != null) {
        val Array(name, code) = line.split(' ')
        Option(bridges.remove(name)).foreach(ended(_, code.toInt))
        line = reports.readLine()
      }
    } catch { case _: IOException => } // it has ended
    isGone = true
    directory.completeExceptionally(new IllegalStateException("the parent of processes has ended"))
    bridges.values.forEach(ended(_, Agent.Killed)) // with their parent
  }

  private def ended(bridge: Bridge, code: Int): Unit = {
    if (bridge.warmsUp) Agent.forget(bridge)
    else if (!bridge.isKilled && code != Agent.CutOff) Agent.note(s"${bridge.role} $code")
    bridge.ended.complete(code)
  }
}

object Agent {
  val StartSeconds = 60L
  val EndSeconds = 10L
  /** Exit code of a process that was cut off because another one has ended. */
  val CutOff = 75
  val Killed = -9
  /** Time in which the process that ended first is to be reported first. */
  val CauseFirstMs = 300L
  private var python: String = _
  private var environment: Seq[(String, String)] = _
  @volatile private var current: Agent = _
  /** Number of the query whose processes may be here. */
  private var attempt = 0
  private val bridges = new util.HashMap[Int, Bridge]
  /** By number of the query and role, those of queries that run beside it to warm up. */
  private val others = new ConcurrentHashMap[(Int, Int), Bridge]
  @volatile private var first = ""

  /** Start it ahead.
    *
    * @param variables what the environment of this JVM lacks
    */
  def start(interpreter: String, variables: Seq[(String, String)]): Unit = synchronized {
    python = interpreter
    environment = variables
    if (current == null || !current.isAlive) current = new Agent(python, environment)
  }

  /** A number for a query that is the next one here. */
  def fresh(): Int = synchronized(attempt + 1)

  /** The process `role` of a query; no process of an earlier query is left. */
  def bridge(job: Job, role: Int): Bridge = synchronized {
    if (job.attempt < 0) return others.computeIfAbsent((job.attempt, role), _ => fork(job, role))
    if (job.attempt > attempt) {
      end(attempt)
      attempt = job.attempt
    }
    if (job.attempt < attempt) throw new IllegalStateException("this query has been stopped")
    bridges.computeIfAbsent(role, _ => fork(job, role))
  }

  private def fork(job: Job, role: Int): Bridge = {
    start(python, environment)
    current.start(job, role)
  }

  /** End the processes of a query, and wait for them. */
  def end(query: Int): Unit = synchronized {
    if (query < 0) {
      others.values.forEach(_.kill())
      others.clear()
    } else if (query == attempt) {
      bridges.values.forEach(_.kill())
      bridges.values.forEach { bridge =>
        try bridge.ended.get(EndSeconds, TimeUnit.SECONDS)
        catch { case _: TimeoutException => }
      }
      bridges.clear()
      first = ""
      attempt = query + 1 // a task that comes too late starts none
    }
  }

  /** Forget the process of a query that warmed up; others may wait for an end under the lock. */
  def forget(bridge: Bridge): Unit = others.values.remove(bridge)

  def kill(name: String): Unit = Option(current).foreach(_.kill(name))

  def stop(): Unit = Option(current).foreach(_.stop())

  def note(end: String): Unit = synchronized(if (first.isEmpty) first = end)

  /** The process here that ended first by itself, and its exit code; empty if there is none. */
  def firstEnded(): String = first
}

/** Starts the agent together with each executor; local Spark has one in the driver. */
final class Plugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = null

  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {
    override def init(context: PluginContext, extra: util.Map[String, String]): Unit = {
      Agent.start(context.conf.get("spark.wallaroo.python"), context.conf.getExecutorEnv)
      Ahead.start()
    }

    override def shutdown(): Unit = Agent.stop()
  }
}
