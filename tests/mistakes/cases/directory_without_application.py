# A directory without application.py.
# $ wallaroo check empty
# + empty/notes.txt: b""
