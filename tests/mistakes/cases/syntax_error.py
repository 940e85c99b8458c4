# A syntax error.
# $ wallaroo check broken.py
# + broken.py: b"import wallaroo\n\n\ndef application_setup(args:\n    return None\n"
