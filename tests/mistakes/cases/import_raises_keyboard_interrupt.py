# A module that raises KeyboardInterrupt on import.
# $ wallaroo check application.py
raise KeyboardInterrupt
