# A module that ends the process, as if all were well.
# $ wallaroo check application.py
import sys

sys.exit()
