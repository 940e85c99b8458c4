# An application without a pipeline.
# $ wallaroo check application.py
import wallaroo


def application_setup(args):
    return wallaroo.build_application("Mistake")
