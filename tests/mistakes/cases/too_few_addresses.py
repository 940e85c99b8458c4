# Fewer addresses than sources.
# $ wallaroo run application.py --in 127.0.0.1:7010
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    name, host, port = wallaroo.tcp_parse_input_addrs(args)[1]
    return built(wallaroo.source("x", wallaroo.TCPSourceConfig(host, port, decode)).to_sink(SINK))
