"""Windows of the messages of two files, which are appended to."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,import-not-found"

import logs

import wallaroo


def application_setup(args):
    one, other = (
        wallaroo.source(
            f"File {number}",
            wallaroo.FileSourceConfig(file, logs.decode, "lines", True, time=logs.time_of),
        ).key_by(logs.key_of)
        for number, file in enumerate(logs.files(args))
    )
    return logs.with_port("Files", args, one.merge(other).to(logs.windows))
