# A source whose read yields only payloads.
# $ wallaroo simulate application.py
import wallaroo
from parts import SINK, built, decode


class Feed(wallaroo.MessageSource):
    def read(self, position):
        yield b"ada"


def application_setup(args):
    return built(wallaroo.source("feed", wallaroo.SourceConfig(Feed(), decode)).to_sink(SINK))
