# Reloading an application on a cluster.
# $ wallaroo run application.py --reload --master spark://master:7077
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
