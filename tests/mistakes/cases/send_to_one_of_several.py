# The sources of the application take different messages, and none has the port.
# $ wallaroo send - application.py --to 127.0.0.1:7013
import wallaroo
from parts import LINES, SINK, built


def application_setup(args):
    other = wallaroo.TCPSourceConfig("127.0.0.1", 7011, bytes.decode, framing="lines")
    return built(LINES.merge(wallaroo.source("others", other)).to_sink(SINK))
