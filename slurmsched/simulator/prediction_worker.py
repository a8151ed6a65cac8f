"""A process that predicts completions for its parent: ``python -m slurmsched.simulator.prediction_worker FD``.

Compiled code holds Python's lock, and its compiler needs some hundred MiB; neither belongs in the daemon, whose cycles
must be on time. Reads the arguments of ``predict_completion`` from that socket and answers each with (error, table); it
ends with its parent.
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
    """Answer requests until the parent is gone."""
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
