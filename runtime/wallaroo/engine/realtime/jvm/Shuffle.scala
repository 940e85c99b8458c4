// Spark's streaming shuffle, within a virtual machine without sockets, and between two of them with
// authentication and encryption. In a package of Spark's, because its classes are visible only there.
package org.apache.spark.wallaroo

import java.net.SocketAddress
import java.nio.ByteBuffer
import java.util
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._

import io.netty.buffer.ByteBuf
import io.netty.channel.{Channel, ChannelFuture, DefaultChannelPromise}
import io.netty.util.concurrent.ImmediateEventExecutor

import org.apache.spark.{SparkContext, SparkEnv, TaskContext}
import org.apache.spark.internal.config.DRIVER_BIND_ADDRESS
import org.apache.spark.network.TransportContext
import org.apache.spark.network.client.{RpcResponseCallback, TransportClient}
import org.apache.spark.network.client.{TransportClientBootstrap, TransportClientFactory}
import org.apache.spark.network.crypto.{AuthClientBootstrap, AuthServerBootstrap}
import org.apache.spark.network.server.{RpcHandler, StreamManager, TransportServer}
import org.apache.spark.network.server.TransportServerBootstrap
import org.apache.spark.network.shuffle.streaming.StreamingShuffleMessageType.CREDIT_CONTROL_MESSAGE
import org.apache.spark.network.util.TransportConf
import org.apache.spark.shuffle.{ShuffleHandle, ShuffleReader, ShuffleReadMetricsReporter}
import org.apache.spark.shuffle.{ShuffleWriteMetricsReporter, ShuffleWriter}
import org.apache.spark.shuffle.streaming.StreamingShuffleManager
import org.apache.spark.util.{ErrorNotifier, Utils}

import wallaroo.realtime.Agent

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
    val last: TransportClientBootstrap = (client: TransportClient, _: Channel) => {
      Neighbours.add(client, handler)
      handler.channelActive(client)
    }
    createClientFactory((first.toList :+ last).asJava)
  }
}

/** A handler that learns of a connection only when it is authenticated: that of a reader sends at
  * once, and that of a writer fails the task with the connection. It learns of its end only when a
  * task that has ended it by its own failure has reported that.
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
    handler.receive(Neighbours.sender(client), message)

  override def getStreamManager: StreamManager = handler.getStreamManager

  override def channelInactive(client: TransportClient): Unit =
    if (admitted(client)) later(client)(handler.channelInactive(client))

  override def exceptionCaught(cause: Throwable, client: TransportClient): Unit =
    if (admitted(client)) later(client)(handler.exceptionCaught(cause, client))

  private def later(client: TransportClient)(call: => Unit): Unit =
    client.getChannel.eventLoop.schedule(
      (() => call): Runnable, Agent.CauseFirstMs, TimeUnit.MILLISECONDS)
}

/** The readers of this virtual machine, by the ends of their connections. */
object Neighbours {
  private val readers =
    new ConcurrentHashMap[(SocketAddress, SocketAddress), ByteBuffer => Unit]

  def add(client: TransportClient, handler: RpcHandler): Unit = {
    val (channel, uncredited) = (client.getChannel, new Uncredited(client))
    val ends = (channel.localAddress, channel.remoteAddress)
    readers.put(ends, handler.receive(uncredited, _))
    channel.closeFuture.addListener((_: ChannelFuture) => readers.remove(ends))
  }

  /** What sends to the reader to which `client` is connected. */
  def sender(client: TransportClient): TransportClient = {
    val channel = client.getChannel
    Option(readers.get((channel.remoteAddress, channel.localAddress)))
      .fold(client)(new Direct(client, _))
  }
}

/** A writer's way to a reader of the same virtual machine: the writer's thread hands messages over, and
  * the connection only says that both are alive.
  */
final class Direct(client: TransportClient, reader: ByteBuffer => Unit)
    extends TransportClient(client.getChannel, client.getHandler) {
  override def send(message: ByteBuf): ChannelFuture =
    if (!isActive) super.send(message)
    else {
      try reader(message.nioBuffer())
      finally message.release()
      Sent.on(getChannel)
    }
}

/** A reader's way back: it answers every message, and the writer heeds the first answer only. */
final class Uncredited(client: TransportClient)
    extends TransportClient(client.getChannel, client.getHandler) {
  override def send(message: ByteBuf): ChannelFuture =
    if (message.getInt(0) != CREDIT_CONTROL_MESSAGE.id) super.send(message)
    else {
      message.release()
      Sent.on(getChannel)
    }
}

object Sent {
  /** What is known to be sent, in the thread that asks. */
  def on(channel: Channel): ChannelFuture =
    new DefaultChannelPromise(channel, ImmediateEventExecutor.INSTANCE).setSuccess()
}
