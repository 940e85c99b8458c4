# An application in a file that is not Python.
# $ wallaroo check in.txt
# + in.txt: b"def application_setup(args):\n    return None\n"
# $ wallaroo check ''
