# A state directory in an object store.
# $ wallaroo run application.py --state-dir s3a://bucket/state
# $ wallaroo check application.py --state-dir file:///srv/state
import wallaroo
from parts import LINES, SINK, built


def application_setup(args):
    return built(LINES.to_sink(SINK))
