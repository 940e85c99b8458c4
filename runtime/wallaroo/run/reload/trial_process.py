"""The process in which `trial.tried` tries code: a pickled `Trial` on standard input.

The argument is the number of the file descriptor that takes the pickled `Outcome`.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import TYPE_CHECKING

from wallaroo.system.lifeline import die_with_starter, end_group_with_leader

if TYPE_CHECKING:
    from wallaroo.run.reload.trial import Trial


def main() -> None:
    """Be the process."""
    end_group_with_leader()
    die_with_starter()
    trial: Trial = pickle.loads(sys.stdin.buffer.read())
    with os.fdopen(int(sys.argv[1]), "wb") as answer:
        answer.write(pickle.dumps(trial.run()))
    os._exit(0)  # no thread of user code keeps it alive


if __name__ == "__main__":
    main()
