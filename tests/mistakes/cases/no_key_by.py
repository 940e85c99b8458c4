# A state computation without key_by.
# $ wallaroo check application.py
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, Total, built


@wallaroo.state_computation(name="count", state=Total)
def count(line, total):
    total.count += 1
    return f"{line}: {total.count}"


def application_setup(args):
    return built(LINES.to(count).to_sink(SINK))
