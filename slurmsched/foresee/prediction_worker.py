"""A process that predicts completions for its parent: ``python -m slurmsched.foresee.prediction_worker FD``.

Compiled code holds Python's lock, and its compiler needs some hundred MiB; neither belongs in the daemon, whose cycles
must be on time. A request is the arguments of ``predict_completion``, an answer is (error, table).
"""

from __future__ import annotations

from typing import Any

from ..child_process import serve
from ..cluster.records.predictions import PredictionTable
from ..errors import SlurmschedError
from .predict_completion import predict_completion


def answer(request: tuple[Any, ...]) -> tuple[str, PredictionTable | None]:
    """Return the predictions for *request*, or the error."""
    try:
        return "", predict_completion(*request)
    except (SlurmschedError, ValueError, IndexError, KeyError) as error:
        return f"{type(error).__name__}: {error}", None


if __name__ == "__main__":
    serve(answer)
