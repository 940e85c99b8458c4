"""Windows of the messages of a topic whose key is not that of its records."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,import-not-found"

import logs
from topic_ends import Ends

import wallaroo


def application_setup(args):
    ends = Ends(args)
    messages = wallaroo.source("Partitions", ends.source(logs.decode)).key_by(logs.key_of)
    sink = ends.sink(logs.encode, encode_with_key)
    return wallaroo.build_application("Partitions", messages.to(logs.windows).to_sink(sink))


def encode_with_key(output):
    return output, output.split(maxsplit=1)[0]
