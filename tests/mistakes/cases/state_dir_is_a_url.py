# A state directory on an object store that is not known, or cannot be used.
# $ wallaroo run application.py --state-dir gs://bucket/state
# $ wallaroo run application.py --state-dir s3a://bucket
# $ wallaroo run application.py --state-dir s3://bucket/state
# $ wallaroo repartition application.py --partitions 2 --state-dir s3a://bucket/state
# $ wallaroo check application.py --state-dir file:///srv/state
import wallaroo
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
