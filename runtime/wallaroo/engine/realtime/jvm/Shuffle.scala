// Spark's streaming shuffle with authentication and encryption. In a package of Spark's, because its
// classes are visible only there.
package org.apache.spark.wallaroo

import java.nio.ByteBuffer
import java.util

import scala.jdk.CollectionConverters._

import io.netty.channel.Channel

import org.apache.spark.{SparkContext, SparkEnv, TaskContext}
import org.apache.spark.internal.config.DRIVER_BIND_ADDRESS
import org.apache.spark.network.TransportContext
import org.apache.spark.network.client.{RpcResponseCallback, TransportClient}
import org.apache.spark.network.client.{TransportClientBootstrap, TransportClientFactory}
import org.apache.spark.network.crypto.{AuthClientBootstrap, AuthServerBootstrap}
import org.apache.spark.network.server.{RpcHandler, StreamManager, TransportServer}
import org.apache.spark.network.server.TransportServerBootstrap
import org.apache.spark.network.util.TransportConf
import org.apache.spark.shuffle.{ShuffleHandle, ShuffleReader, ShuffleReadMetricsReporter}
import org.apache.spark.shuffle.{ShuffleWriteMetricsReporter, ShuffleWriter}
import org.apache.spark.shuffle.streaming.StreamingShuffleManager
import org.apache.spark.util.{ErrorNotifier, Utils}

/** Spark's manager, whose readers and writers connect through `GuardedContext`.
  *
  * These are copies of Spark's classes, made by `guarded_shuffle.py`.
  */
final class GuardedShuffleManager extends StreamingShuffleManager {
  override def getWriter[K, V](
      handle: ShuffleHandle,
      mapId: Long,
      context: TaskContext,
      metrics: ShuffleWriteMetricsReporter): ShuffleWriter[K, V] =
    copied("StreamingShuffleWriter", handle, Long.box(mapId), context, None, new ErrorNotifier)

  override def getReader[K, C](
      handle: ShuffleHandle,
      startMapIndex: Int,
      endMapIndex: Int,
      startPartition: Int,
      endPartition: Int,
      context: TaskContext,
      metrics: ShuffleReadMetricsReporter): ShuffleReader[K, C] =
    copied("StreamingShuffleReader", handle, context, None, new ErrorNotifier)

  private def copied[T](name: String, arguments: AnyRef*): T =
    Class
      .forName(s"org.apache.spark.wallaroo.$name", true, getClass.getClassLoader)
      .getConstructors
      .head
      .newInstance(arguments: _*)
      .asInstanceOf[T]
}

/** Connections as those of Spark's other ports: Spark's own shuffle listens on all addresses, and
  * asks nobody for the secret.
  */
final class GuardedContext(conf: TransportConf, handler: RpcHandler)
    extends TransportContext(conf, new Awaiting(handler)) {
  private val env = SparkEnv.get
  private val authenticates = env.securityManager.isAuthenticationEnabled()

  private def host: String =
    if (env.executorId == SparkContext.DRIVER_IDENTIFIER) env.conf.get(DRIVER_BIND_ADDRESS)
    else Utils.localCanonicalHostName()

  override def createServer(): TransportServer = {
    val steps = Option.when[TransportServerBootstrap](authenticates)(
      new AuthServerBootstrap(conf, env.securityManager))
    createServer(host, 0, steps.toList.asJava)
  }

  override def createClientFactory(): TransportClientFactory = {
    val first = Option.when[TransportClientBootstrap](authenticates)(
      new AuthClientBootstrap(conf, env.conf.getAppId, env.securityManager))
    val last: TransportClientBootstrap = (client: TransportClient, _: Channel) =>
      handler.channelActive(client)
    createClientFactory((first.toList :+ last).asJava)
  }
}

/** A handler that learns of a connection only when it is authenticated: that of a reader sends at
  * once, and that of a writer fails the task with the connection.
  */
final class Awaiting(handler: RpcHandler) extends RpcHandler {
  private val authenticates = SparkEnv.get.securityManager.isAuthenticationEnabled()

  private def admitted(client: TransportClient): Boolean =
    !authenticates || client.getClientId != null

  override def channelActive(client: TransportClient): Unit = {}

  override def receive(
      client: TransportClient, message: ByteBuffer, callback: RpcResponseCallback): Unit =
    handler.receive(client, message, callback)

  override def receive(client: TransportClient, message: ByteBuffer): Unit =
    handler.receive(client, message)

  override def getStreamManager: StreamManager = handler.getStreamManager

  override def channelInactive(client: TransportClient): Unit =
    if (admitted(client)) handler.channelInactive(client)

  override def exceptionCaught(cause: Throwable, client: TransportClient): Unit =
    if (admitted(client)) handler.exceptionCaught(cause, client)
}
