"""Async steps before the states of `levels.py` and between them: calls wait while faults happen.

A call takes a few milliseconds, now and then longer, so that answers overtake each other. A batched
step gets what the first one has answered.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,import-not-found"

import asyncio
import random

import counting
import levels

import wallaroo
from wallaroo.system.failpoints import fault

MEAN_S = 0.003
"""How long a call takes on average."""


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    messages = wallaroo.source(
        "Asking", wallaroo.TCPSourceConfig(in_host, in_port, counting.decode)
    )
    counted = messages.to(ask).to(score).key_by(counting.key).to(levels.count).to(ask_again)
    counted = counted.key_by(levels.group_of).to(levels.count_in_group)
    return wallaroo.build_application(
        "Asking",
        counted.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, levels.encode, sequenced=True)),
    )


@wallaroo.once_per_worker
async def service():
    """Stands for a client, of which a worker has one."""
    return asyncio.Semaphore(500)


async def answer():
    async with await service():
        await asyncio.sleep(random.expovariate(1 / MEAN_S))


@wallaroo.computation_async(name="ask", concurrency=500)
async def ask(message):
    await answer()
    if message["number"] % 100 == 0:
        fault("worker-in-user-code")
    return message


@wallaroo.computation_batch(name="score", max=50, wait=wallaroo.milliseconds(2))
def score(messages):
    return messages


@wallaroo.computation_async(name="ask again", concurrency=500)
async def ask_again(last):
    await answer()
    return last
