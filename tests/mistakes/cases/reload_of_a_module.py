# Reloading an application that is named as a module.
# $ wallaroo run application --reload --in 127.0.0.1:7010 --out 127.0.0.1:7002
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
