# --conf without a value.
# $ wallaroo run application.py --conf spark.driver.memory
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
