# sys.exit on import.
# $ wallaroo check application.py
import sys

if len(sys.argv) > 1000 or True:
    sys.exit("usage: application.py HOST")


def application_setup(args):
    return None
