# A module that raises on import.
# $ wallaroo check application.py

SETTINGS = {}
HOST = SETTINGS["host"]


def application_setup(args):
    return None
