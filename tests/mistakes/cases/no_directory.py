# A directory that does not exist.
# $ wallaroo check ./no/such/directory
