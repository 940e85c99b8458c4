# A module that does not exist.
# $ wallaroo check no_such_module
