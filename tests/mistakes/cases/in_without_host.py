# --in with a port alone.
# $ wallaroo run application.py --in 7010
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    name, host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    lines = wallaroo.source("lines", wallaroo.TCPSourceConfig(host, port, decode))
    return built(lines.to_sink(SINK))
