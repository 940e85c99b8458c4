# A source without read.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


class Feed:
    def next(self):
        return b"x"


def application_setup(args):
    return built(wallaroo.source("feed", wallaroo.SourceConfig(Feed(), decode)).to_sink(SINK))
