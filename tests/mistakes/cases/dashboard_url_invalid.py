# An address of a dashboard that is none.
# $ wallaroo top 'http://[::1' --once
