# A batched step that is a coroutine.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation_batch(name="score")
async def score(lines):
    return lines


def application_setup(args):
    return built(LINES.to(score).to_sink(SINK))
