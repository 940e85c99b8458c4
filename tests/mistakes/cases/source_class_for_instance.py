# A MessageSource's class in the place of an instance.
# $ wallaroo check application.py
import wallaroo
from parts import SINK, built, decode


class Feed(wallaroo.MessageSource):
    def read(self, position):
        yield from ()


def application_setup(args):
    return built(wallaroo.source("feed", wallaroo.SourceConfig(Feed, decode)).to_sink(SINK))
