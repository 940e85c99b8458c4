// Logs of buckets on their way from Spark's state store to Python, which reads them from files.
package wallaroo.realtime

import java.io.{BufferedOutputStream, DataOutputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.nio.file.StandardOpenOption.{CREATE_NEW, WRITE}
import java.util.UUID

import org.apache.spark.sql.{Dataset, Encoders, Row}

object Spool {
  /** Lets each task write its `rows`, the name of a log with a place and a content, to a file of
    * its own in `directory`, as `spool.py` reads it; returns the names of the files.
    */
  def write(rows: Dataset[Row], directory: String): Array[String] =
    rows.mapPartitions((of: Iterator[Row]) => Iterator(written(of, directory)))(Encoders.STRING)
      .collect()

  private def written(rows: Iterator[Row], directory: String): String = {
    val name = UUID.randomUUID().toString
    val file = Files.newOutputStream(Path.of(directory, name), CREATE_NEW, WRITE)
    val out = new DataOutputStream(new BufferedOutputStream(file))
    try for (row <- rows) {
      val log = row.getString(0).getBytes(UTF_8)
      val content = row.getAs[Array[Byte]](2)
      out.writeLong(row.getLong(1))
      out.writeInt(log.length)
      out.writeInt(content.length)
      out.write(log)
      out.write(content)
    } finally out.close()
    name
  }
}
