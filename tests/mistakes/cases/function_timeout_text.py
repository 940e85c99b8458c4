# A duration with a unit in an option.
# $ wallaroo run application.py --function-timeout 5s
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
