# The driver of a database is not installed.
# $ wallaroo check application.py
import wallaroo
from parts import LINES, built


@wallaroo.encoder
def as_row(line):
    return {"line": line}


def application_setup(args):
    table = wallaroo.SQLSinkConfig("mysql+pymysql://${USER}@${HOST}:${PORT}/shop", "lines", as_row)
    return built(LINES.to_sink(table))
