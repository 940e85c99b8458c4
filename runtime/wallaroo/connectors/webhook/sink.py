"""Outputs as requests: in order, each repeated until the receiver has it."""

from __future__ import annotations

import functools
import http.client
import ssl
from collections import Counter
from collections.abc import Iterator, Sequence

from wallaroo.connectors.threads import RETRY_FIRST_S, RETRY_MOST_S, STOP_S, SinkThread
from wallaroo.connectors.webhook.client import Answer, WebhookClient
from wallaroo.connectors.webhook.headers import prepared
from wallaroo.connectors.webhook.resolve import WebhookSink
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.outbox.outbox import RefusedOutput
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample

_REFUSALS = frozenset({400, 413, 415, 422})
"""Answers that say that the outputs themselves cannot be taken."""


class _Stopped(Exception):
    """The sink is to stop."""


class WebhookSinkWriter(SinkThread[WebhookSink]):
    """Posts one sink's outputs in a separate thread.

    Raises:
        RuntimeFailure: Headers cannot be read or sent.
    """

    VERB, WAITS = "posts_to", "it waits for an answer"

    def __init__(self, context: ConnectorContext, index: int, sink: WebhookSink) -> None:
        super().__init__(context, index, sink)
        self._on_failure, outbox = context.on_failure, context.outbox
        self._common = prepared(sink)
        self._client = WebhookClient(sink, self._common, context.sink_tls)
        self._series = outbox.numbering(sink.name)
        self._first = outbox.sent_to(index) + 1
        """Number of the first output that the receiver may not have at the start."""
        self._refused: list[RefusedOutput] = []
        """Outputs of the present delivery that are set aside."""
        self._requests: Counter[str] = Counter()
        self._thread.start()

    def samples(self) -> Iterator[Sample]:
        """Requests by what was answered, since the gateway started."""
        for answer, count in list(self._requests.items()):
            yield Sample(catalogue.WEBHOOK_REQUESTS, (self._sink.name, answer), count)

    def _run(self) -> None:
        try:
            self._work()
        except _Stopped:
            pass
        except Exception as error:  # the gateway must not go on without this sink
            self._on_failure(error)
        finally:
            self._client.close()

    def _interrupt(self) -> None:
        self._client.cut()
        self._thread.join(STOP_S)

    def _work(self) -> None:
        """Post outputs as they are published, until stopped."""
        while not self._stopping.is_set():
            if (delivery := self._next()) is not None:
                self._deliver(delivery)

    def _deliver(self, delivery: Delivery) -> None:
        """Post the outputs of *delivery* that the receiver does not have.

        Requests never take outputs of two deliveries: so they are cut in the same places after a
        restart, and a repeated one has the same key.

        Raises:
            _Stopped: The sink is to stop before all are posted.
        """
        outputs = delivery.outputs.cut()
        self._refused = []
        for start in range(0, len(outputs), self._sink.batch):
            part = outputs[start : start + self._sink.batch]
            number = delivery.number + start
            end = number + len(part)
            if end <= self._first:
                continue
            self._post_part(number, part)
            if not self._refused:  # else a restart finds again what is to be set aside
                self._hand_over(functools.partial(self._outbox.sent, self._index, end - 1))
        self._settle(delivery.position, self._refused)

    def _post_part(self, number: int, outputs: Sequence[bytes]) -> None:
        """Post *outputs*, or set them aside, those of a batch that is refused in halves."""
        refusal = self._no_line(outputs) or self._refusal(number, outputs)
        if refusal is not None and len(outputs) > 1:
            middle = len(outputs) // 2
            self._post_part(number, outputs[:middle])
            self._post_part(number + middle, outputs[middle:])
        elif refusal is not None:
            self._refused.append(self._set_aside(number, outputs[0], refusal))

    def _refusal(self, number: int, outputs: Sequence[bytes]) -> str | None:
        """Post *outputs* until they are answered; returns why they are refused, if they are.

        Raises:
            _Stopped: The sink is to stop.
        """
        body, headers = self._body(outputs), self._headers(number, len(outputs))
        pause, answers = RETRY_FIRST_S, 0
        while True:
            if self._stopping.is_set():
                raise _Stopped
            wait_s = pause
            try:
                answer = self._client.post(body, headers)
            except (OSError, ValueError, http.client.HTTPException) as error:
                reason = self._common.redacted(_reason(error))
                self._requests["none"] += 1
            else:
                self._requests[f"{answer.status // 100}xx"] += 1
                if answer.is_success:
                    self.problem = None
                    return None
                answers += 1
                reason = str(answer)
                if self._gives_up(answer, answers):
                    return reason
                if answer.retry_after_s is not None:
                    wait_s = max(wait_s, answer.retry_after_s)
            self._failed(reason, wait_s)
            self._stopping.wait(wait_s)
            pause = min(pause * 2, RETRY_MOST_S)

    def _gives_up(self, answer: Answer, answers: int) -> bool:
        if self._sink.sets_aside and answer.status in _REFUSALS:
            return True
        return self._sink.attempts is not None and answers >= self._sink.attempts

    def _no_line(self, outputs: Sequence[bytes]) -> str | None:
        """Why *outputs* cannot be the lines of a batch, if that is so."""
        if self._sink.batch == 1 or self._sink.batch_format != "lines":
            return None
        for output in outputs:
            if b"\n" in output.removesuffix(b"\n"):
                return "it has a line feed, and so cannot be a line of a batch"
        return None

    def _body(self, outputs: Sequence[bytes]) -> bytes:
        if self._sink.batch == 1:
            return outputs[0]
        if self._sink.batch_format == "array":
            return b"[%b]" % b",".join(outputs)
        return b"".join(output.removesuffix(b"\n") + b"\n" for output in outputs)

    def _headers(self, number: int, count: int) -> dict[str, str]:
        last = f"-{number + count - 1}" if count > 1 else ""
        return {
            "Content-Type": self._sink.content_type,
            "Idempotency-Key": f"{self._series}-{number}{last}",
        }


open_sink = WebhookSinkWriter


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the receiver's certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "the receiver did not answer in time"
    return f"no answer from the receiver: {error or type(error).__name__}"
