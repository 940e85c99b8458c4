// Checkpoints on an object store, which renames nothing: an object is there when its stream closes.
package wallaroo.realtime

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, FileAlreadyExistsException, Path, PathIOException}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

/** How Spark writes there. */
final class ObjectStore(path: Path, settings: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, settings) {
  import CheckpointFileManager.CancellableFSDataOutputStream

  /** A stream whose object gets its name at the end: always if it `replaces`, and otherwise only if
    * there is none of that name, which the store decides: of two writers one wins.
    */
  override def createAtomic(path: Path, replaces: Boolean): CancellableFSDataOutputStream = {
    val kind = if (replaces) "fs.s3a.create.performance" else ObjectStore.OnlyIfAbsent
    val builder = fs.createFile(path).overwrite(replaces).recursive()
    new Cancellable(path, builder.must(kind, true).build())
  }

  private final class Cancellable(path: Path, stream: FSDataOutputStream)
      extends CancellableFSDataOutputStream(stream) {
    private var isOver = false

    override def cancel(): Unit = synchronized {
      if (!isOver) {
        isOver = true
        stream.abort() // before it closes, which would publish what was written so far
        Try(stream.close())
      }
    }

    override def close(): Unit = synchronized {
      if (!isOver) {
        isOver = true
        try stream.close()
        catch {
          case error: PathIOException if ObjectStore.isTaken(error) =>
            throw new FileAlreadyExistsException(s"$path is there already").initCause(error)
        }
      }
    }
  }
}

object ObjectStore {
  private val OnlyIfAbsent = "fs.option.create.conditional.overwrite"

  /** Let `text` be the content of the object `name`, if there is none or it `replaces` that;
    * returns the content that it has.
    */
  def claim(session: SparkSession, name: String, text: String, replaces: Boolean): String = {
    val path = new Path(name)
    val files = new ObjectStore(path, session.sparkContext.hadoopConfiguration)
    def isWritten(replaces: Boolean): Boolean =
      try {
        val stream = files.createAtomic(path, replaces)
        stream.write(text.getBytes(UTF_8))
        stream.close()
        true
      } catch { case _: FileAlreadyExistsException => false }
    if (isWritten(replaces) && !replaces && isWritten(replaces = false))
      throw new IllegalStateException("it writes objects that exist, whatever If-None-Match says")
    val stream = files.open(path)
    try new String(stream.readAllBytes(), UTF_8)
    finally stream.close()
  }

  /** Whether a condition of a request did not hold; the class is not there for the compiler. */
  private def isTaken(error: PathIOException): Boolean =
    error.getClass.getSimpleName == "RemoteFileChangedException"
}
