"""A process that judges parts of policies for its parent: ``python -m ...conformance.worker FD``.

Code of strangers may hang, crash, print or end its process; none of that belongs in a command. Reads requests from
that socket and answers each; it ends with its parent.
"""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection

from .judgement import answer


def serve(parent: Connection) -> None:
    """Answer requests until the parent is gone."""
    while True:
        try:
            request = parent.recv()
        except EOFError:
            return
        try:
            parent.send(answer(request))
        except BrokenPipeError:
            return


if __name__ == "__main__":
    os.dup2(2, 1)  # a part that prints does not disturb the output of the command
    serve(Connection(int(sys.argv[1])))
