# sys.exit in application_setup.
# $ wallaroo check application.py
import sys


def application_setup(args):
    sys.exit(3)
