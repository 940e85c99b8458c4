# A list of keys with a list in it.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, Total, decode, word


@wallaroo.state_computation(name="count")
def count(line, total):
    return (line, True)


def application_setup(args):
    return (
        wallaroo.ApplicationBuilder("Mistake")
        .new_pipeline("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode))
        .to_state_partition(count, Total, "totals", word, [["ada"], ["grace"]])
        .to_sink(SINK)
        .build()
    )
