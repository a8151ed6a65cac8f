"""A process of its own that plays forward for its parent: ``python -m slurmsched.simulator.prediction_worker FD``.

Compiled code holds Python's lock and its compiler some hundred MiB; a daemon whose cycle may not be late has neither.
Reads the arguments of ``foretell`` from that socket, answers each with (error, table), ends with its parent.
"""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection

from ..cluster.records.predictions import PredictionTable
from ..errors import SlurmschedError
from .predict_completion import predict_completion

NICE = 10


def serve(parent: Connection) -> None:
    """Answer until the parent is gone."""
    while True:
        try:
            question = parent.recv()
        except EOFError:
            return
        answer: tuple[str, PredictionTable | None]
        try:
            answer = "", predict_completion(*question)
        except (SlurmschedError, ValueError, IndexError, KeyError) as error:
            answer = f"{type(error).__name__}: {error}", None
        try:
            parent.send(answer)
        except BrokenPipeError:
            return


if __name__ == "__main__":
    os.nice(NICE)
    serve(Connection(int(sys.argv[1])))
