# An application in a file with the name of a module of Python.
# $ wallaroo check queue.py
# + queue.py: b"def application_setup(args):\n    return None\n"
