# A profile into a directory that does not exist.
# $ wallaroo profile --output nowhere/profile.svg
