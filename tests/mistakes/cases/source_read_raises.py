# A source whose read raises.
# $ wallaroo simulate application.py
import wallaroo
from parts import SINK, built, decode


class Feed(wallaroo.MessageSource):
    def read(self, position):
        yield b"ada", 1
        raise OSError("the feed is closed")


def application_setup(args):
    return built(wallaroo.source("feed", wallaroo.SourceConfig(Feed(), decode)).to_sink(SINK))
