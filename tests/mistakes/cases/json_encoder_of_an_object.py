# An output of a class that is not plain data.
# $ wallaroo simulate application.py
# < ada
import wallaroo
from parts import LINES, Total, built
from wallaroo.codecs import json_encoder


@wallaroo.computation(name="totalled")
def totalled(line):
    return Total()


def application_setup(args):
    return built(LINES.to(totalled).to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 7002, json_encoder())))
