"""What an application author writes with: decorators, configurations, the application builder.

Everything here only records what the author said, with its place in their code. It does no I/O and
judges nothing: `wallaroo.model` gives the record its meaning and finds what is wrong in it.
"""
