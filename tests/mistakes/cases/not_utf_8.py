# A file that is not UTF-8.
# $ wallaroo check latin.py
# + latin.py: b"NAME = 'caf\xe9'\n"
