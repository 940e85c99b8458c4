# Windows without over.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, SINK, built, word


def application_setup(args):
    windows = wallaroo.range_windows(wallaroo.minutes(1))
    return built(LINES.key_by(word).to(windows).to_sink(SINK))
