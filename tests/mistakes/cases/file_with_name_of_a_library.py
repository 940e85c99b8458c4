# An application in a file with the name of a library.
# $ wallaroo check numpy.py
# + numpy.py: b"def application_setup(args):\n    return None\n"
