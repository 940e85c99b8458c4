# An application that does not exist.
# $ wallaroo check missing.py
