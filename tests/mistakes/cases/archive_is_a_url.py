# An archive on an object store that is not known, or cannot be used.
# $ wallaroo run application.py --archive gs://bucket/archive
# $ wallaroo explain application.py ada --archive s3a://bucket
# $ wallaroo replay application.py copy --archive s3://bucket/archive
import wallaroo
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
