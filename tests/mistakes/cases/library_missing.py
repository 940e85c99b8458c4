# An import of a library that is not installed.
# $ wallaroo check application.py
import no_such_library


def application_setup(args):
    return None
