"""The play-forward in a process of its own, started when it is first needed."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from multiprocessing.connection import Connection
from threading import Lock

from ... import interpreter
from ...cluster.columns import FloatArray, IntArray
from ...cluster.records.predictions import PredictionTable
from ...cluster.state import View
from ...errors import SlurmschedError

TIMEOUT_S = 300.0
"""The limit for one answer; the first one may have to wait for the compiler."""

PATIENCE_S = 5.0
"""The longest wait for the request before: the daemon's clients give up after ten seconds."""


class PredictionFailed(SlurmschedError):
    """No prediction is possible this time; the text says why."""


class PredictionWorker:
    """Queries the process that runs the module *worker*, one request at a time.

    A process that died or hangs is replaced at the next request.
    """

    def __init__(self, worker: str, timeout_s: float = TIMEOUT_S, patience_s: float = PATIENCE_S) -> None:
        self._worker = worker
        self._timeout_s, self._patience_s = timeout_s, patience_s
        self._child: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._lock, self._closed = Lock(), False

    def predict(
        self,
        view: View,
        rank: IntArray,
        standing: IntArray,
        config: Mapping[str, str],
        delayed_until_s: FloatArray | None = None,
    ) -> PredictionTable:
        """Return the result of ``simulator.predict_completion``; PredictionFailed where there is none."""
        if not self._lock.acquire(timeout=self._patience_s):
            raise PredictionFailed(
                f"another prediction has been running for {self._patience_s:g} s; ask again in a moment"
            )
        try:
            if self._closed:
                raise PredictionFailed("the daemon is stopping")
            connection = (self._child or self._started())[1]
            try:
                connection.send((view, rank, standing, dict(config), delayed_until_s))
                if not connection.poll(self._timeout_s):
                    raise PredictionFailed(f"the play-forward took longer than {self._timeout_s:g} s")
                error, table = connection.recv()
            except (OSError, EOFError) as trouble:
                self._end()
                raise PredictionFailed("the process that plays forward has died") from trouble
            except PredictionFailed:
                self._end()
                raise
        finally:
            self._lock.release()
        if table is None:
            raise PredictionFailed(f"the play-forward failed: {error}")
        assert isinstance(table, PredictionTable)
        return table

    def close(self) -> None:
        """Stop the process, also in the middle of an answer."""
        self._closed = True
        child = self._child
        if child is not None:
            child[0].kill()
        with self._lock:
            self._end()

    def _started(self) -> tuple[subprocess.Popen[bytes], Connection]:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                interpreter.command(self._worker, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=interpreter.environment(os.environ),
                cwd=interpreter.DIRECTORY,
                start_new_session=True,  # signals of a terminal are for the daemon
            )
        self._child = process, Connection(ours.detach())
        return self._child

    def _end(self) -> None:
        if self._child is not None:
            process, connection = self._child
            connection.close()
            process.kill()
            process.wait()
            self._child = None
