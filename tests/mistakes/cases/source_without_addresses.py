# An option that the application does not get.
# $ wallaroo run application.py
import wallaroo
from parts import SINK, built, decode


def application_setup(args):
    name, host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    return built(wallaroo.source("x", wallaroo.TCPSourceConfig(host, port, decode)).to_sink(SINK))
