# No application_setup.
# $ wallaroo check application.py


def main():
    pass
