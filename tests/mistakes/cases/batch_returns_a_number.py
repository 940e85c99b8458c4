# A batched step that returns one number for all.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation_batch(name="score", max=8)
def score(lines):
    return len(lines)


def application_setup(args):
    return built(LINES.to(score).to_sink(SINK))
