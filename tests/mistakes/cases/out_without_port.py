# --out without a port.
# $ wallaroo run application.py --in 127.0.0.1:7010 --out localhost
import wallaroo
from parts import LINES, built, encode


def application_setup(args):
    host, port = wallaroo.tcp_parse_output_addrs(args)[0]
    return built(LINES.to_sink(wallaroo.TCPSinkConfig(host, port, encode)))
