"""A Python that has read our modules and forks: nursery.py FD. What a start takes is mostly reading them.

Each request on the socket FD is JSON: ``start`` (the words that Python gets behind its own name, the environment, the
directory, and whether it may decide about promises, whose compiled code takes long to load, with files for output and
errors), or ``wait`` (a process that is over). A child goes on as a Python of its own would that just began.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import socket
import sys
import threading
from typing import Any

MARK = b"SLURMSCHED_LAB"


def serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Answer until nobody asks; return a request to carry out, in a child of this process."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, 1 << 20, 2)
        if not message:
            sys.exit()
        request = json.loads(message)
        if child := request.get("wait"):
            _, status = os.waitpid(child, 0)
            answer: dict[str, Any] = {"status": status, "took_s": sum(os.times()[:4])}
        else:
            if request["promises"] and HAVE_NUMBA:
                load_decisions()
            child = os.fork()
            if not child:
                requests.close()
                return request, files
            answer = {"pid": child}
        for file in files:
            os.close(file)
        requests.send(json.dumps(answer).encode())


def become(request: dict[str, Any], files: list[int]) -> None:
    """Go on as ``python WORDS`` would with such files, in such an environment."""
    for file, number in zip(files, (1, 2), strict=True):
        os.dup2(file, number)
        os.close(file)
    belong(request["environment"])
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    limit_blas_threads()  # our modules did so in the environment from before
    words = request["start"]
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        leave(end.code)
    leave(None)


def leave(status: Any) -> None:
    """End as Python does, without taking apart what we have read: that would cost more than most commands do."""
    threading._shutdown()
    atexit._run_exitfuncs()
    if isinstance(status, str):
        print(status, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if isinstance(status, str) else (status or 0) & 0xFF)


def belong(environment: dict[str, str]) -> None:
    """Let a lab find this process: /proc shows its environment as of the start, where there is room for the lab's mark.

    Where it was the lab that started us, its mark is there already.
    """
    mark, room = environment.get(MARK.decode(), "").encode(), os.environb.get(MARK, b"")
    if mark and mark != room:
        assert len(mark) <= len(room)
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_void_p
        ctypes.memmove(libc.getenv(MARK), mark.ljust(len(room), b"\0"), len(room))


if __name__ == "__main__":
    import alembic.autogenerate  # noqa: F401
    import numpy.ma  # noqa: F401
    import sqlalchemy.dialects.sqlite  # noqa: F401

    import slurmsched.cli.daemon.build
    import slurmsched.cli.query
    import slurmsched.daemon.api.query_handlers
    import slurmsched.slurm.adapters.backend  # noqa: F401
    from slurmsched.daemon.compiled_code import HAVE_NUMBA, load_decisions
    from slurmsched.interpreter import limit_blas_threads

    gc.freeze()  # so that a child need not copy what only looking for garbage would change
    become(*serve(socket.socket(fileno=int(sys.argv[1]))))
