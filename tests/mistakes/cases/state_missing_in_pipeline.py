# A state computation without state= in a pipeline.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, word


@wallaroo.state_computation(name="count")
def count(line, total):
    total.count += 1
    return f"{line}: {total.count}"


def application_setup(args):
    return built(LINES.key_by(word).to(count).to_sink(SINK))
