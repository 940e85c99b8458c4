# An argument that the application's argparse refuses.
# $ wallaroo check application.py -- --limit three
import argparse

from parts import LINES, SINK, built


def application_setup(args):
    parser = argparse.ArgumentParser("application.py", usage="application.py [--limit N]")
    parser.add_argument("--limit", type=int)
    parser.parse_args(args)
    return built(LINES.to_sink(SINK))
