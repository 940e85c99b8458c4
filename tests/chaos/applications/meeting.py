"""Two custom sources whose messages meet in an interval join: each has both of its sides."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,import-not-found,misc"

import logs

import wallaroo


def application_setup(args):
    one, other = (
        wallaroo.source(
            f"Lines {number}", wallaroo.SourceConfig(Lines(file), logs.decode, time=logs.time_of)
        ).key_by(logs.key_of)
        for number, file in enumerate(logs.files(args))
    )
    messages = one.merge(other)
    left, right = messages.to(logs.only_left), messages.to(logs.only_right)
    return logs.with_port("Meeting", args, left.join(right, logs.near))


class Lines(wallaroo.MessageSource[int]):
    """Reads lines; the position is the byte after one."""

    def __init__(self, file):
        self._file = file

    def read(self, position):
        with self._file.open("rb") as file:
            file.seek(position or 0)
            while True:
                at = file.tell()
                line = file.readline()
                if line.endswith(b"\n"):
                    yield line[:-1], file.tell()
                else:
                    file.seek(at)
                    yield None
