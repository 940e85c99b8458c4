# A computation that raises an exception that Exception does not include.
# $ wallaroo simulate application.py
# < ada
import asyncio

import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="cancel")
def cancel(line):
    raise asyncio.CancelledError


def application_setup(args):
    return built(LINES.to(cancel).to_sink(SINK))
