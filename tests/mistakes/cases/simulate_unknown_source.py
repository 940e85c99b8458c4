# A source of another name.
# $ wallaroo simulate application.py --from others=messages.txt
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
