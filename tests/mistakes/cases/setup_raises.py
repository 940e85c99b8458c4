# application_setup that raises.
# $ wallaroo check application.py


def application_setup(args):
    ports = []
    return ports[0]
