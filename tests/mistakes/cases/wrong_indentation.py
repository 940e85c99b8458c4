# Wrong indentation.
# $ wallaroo check broken.py
# + broken.py: b"def application_setup(args):\nreturn None\n"
