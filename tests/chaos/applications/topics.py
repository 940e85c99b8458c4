"""Messages are counted as in `counting.py`, with a topic as source, as sink, or as both."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,import-not-found"

import counting
from topic_ends import Ends

import wallaroo


def application_setup(args):
    ends = Ends(args)
    builder = wallaroo.ApplicationBuilder("Chaos")
    builder.new_pipeline("Chaos", ends.source(counting.decode))
    builder.to_state_partition(counting.count, counting.Seen, "seen", counting.key)
    builder.to_sink(ends.sink(counting.encode, encode_with_key))
    return builder.build()


def encode_with_key(last):
    return counting.encode(last), last[0]
