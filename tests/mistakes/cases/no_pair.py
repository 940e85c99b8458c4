# A state computation without state= that returns only its output.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import SINK, Total, decode


@wallaroo.state_computation(name="count")
def count(line, total):
    total.count += 1
    return f"{line}: {total.count}"


def application_setup(args):
    return (
        wallaroo.ApplicationBuilder("Mistake")
        .new_pipeline("lines", wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode))
        .to_stateful(count, Total, "totals")
        .to_sink(SINK)
        .build()
    )
