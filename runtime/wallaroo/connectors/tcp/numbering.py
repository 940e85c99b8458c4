"""Changes between numbered and plain TCP sinks, detected at the start.

A receiver of numbered outputs drops repeated ones by their numbers. It no longer can if the sink
has become a plain one, for which a change of one word in the application's code suffices.
"""

from __future__ import annotations

import structlog

from wallaroo.connectors.tcp.resolve import TCPSink
from wallaroo.gateway.outbox.outbox import Outbox

log = structlog.get_logger("wallaroo.gateway")


def remark_on_change(index: int, sink: TCPSink, outbox: Outbox) -> None:
    """Log whether *sink*, with this *index*, has become numbered or plain, and remember it."""
    before = outbox.note_numbered(index, numbered=sink.sequenced)
    if before is None or before == sink.sequenced:
        return
    about = {"sink": sink.name, "address": sink.where, "outputs": outbox.published_to(index)}
    if before:
        log.warning(
            "sink is numbered no longer",
            **about,
            effect="its receiver gets outputs without numbers, and cannot drop those that repeat",
        )
    else:
        log.warning(
            "sink is numbered now",
            **about,
            effect="its receiver gets a number before each output, continuing the earlier numbers",
        )
