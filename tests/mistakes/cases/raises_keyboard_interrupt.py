# A computation that raises KeyboardInterrupt itself, which is not Ctrl-C.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, SINK, built


@wallaroo.computation(name="give_up")
def give_up(line):
    raise KeyboardInterrupt("enough")


def application_setup(args):
    return built(LINES.to(give_up).to_sink(SINK))
