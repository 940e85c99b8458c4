"""The API for application authors: decorators, configurations, the application builder.

Everything here only records declarations and their location in user code. It does no I/O and
validates nothing; `wallaroo.model` interprets and validates the declarations.
"""
