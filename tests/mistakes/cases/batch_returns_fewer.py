# A batched step that leaves results out.
# $ wallaroo simulate application.py
# < ada
# < bob
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation_batch(name="score", max=8)
def score(lines):
    return [line for line in lines if line != "bob"]


def application_setup(args):
    return built(LINES.to(score).to_sink(SINK))
