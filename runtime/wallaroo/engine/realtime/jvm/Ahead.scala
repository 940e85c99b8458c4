// What the first task needs, loaded while Spark plans the query, which takes only one core.
// In a package of Spark's, because its classes are visible only there.
package org.apache.spark.sql.execution.streaming.state

import java.nio.file.Files

import scala.util.Try

import org.apache.spark.SparkThrowableHelper
import org.apache.spark.sql.catalyst.expressions.BoundReference
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection
import org.apache.spark.sql.types.IntegerType

object Ahead {
  /** Begin; what cannot be loaded here fails where it is needed, with an error that says why. */
  def start(): Unit = {
    val thread = new Thread(() => parts.foreach(load => Try(load())), "wallaroo-ahead")
    thread.setDaemon(true)
    thread.start()
  }

  /** In the order of need, each a tenth to a third of a second. */
  private val parts: Seq[() => Unit] = Seq(
    () => SparkThrowableHelper.errorReader, // texts of errors, also of those that Spark catches
    () => RocksDBLoader.loadLibrary(),
    () => readMetadata(),
    () => GenerateUnsafeProjection.generate(Seq(BoundReference(0, IntegerType, nullable = false))))

  /** Reading what a checkpoint says of its files makes a parser, by reflection. */
  private def readMetadata(): Unit = {
    val file = Files.createTempFile("wallaroo", null).toFile
    try {
      val sst: RocksDBImmutableFile = RocksDBSstFile("1.sst", "1.sst", 1)
      RocksDBCheckpointMetadata(Seq(sst), 1).writeToFile(file)
      RocksDBCheckpointMetadata.readFromFile(file)
    } finally file.delete()
  }
}
