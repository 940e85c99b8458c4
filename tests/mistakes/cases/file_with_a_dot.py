# An application in a file with a dot in its name.
# $ wallaroo check my.app.py
# + my.app.py: b"def application_setup(args):\n    return None\n"
