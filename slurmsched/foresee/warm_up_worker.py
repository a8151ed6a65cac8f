"""A process that compiles the code of promises for its parent: ``python -m slurmsched.foresee.warm_up_worker FD``.

The code is stored, and the parent only loads it. The answer to any request is an error, empty for none.
"""

from __future__ import annotations

from ..child_process import serve
from .warm_up import promises


def answer(request: object) -> str:
    """Compile; return the error, empty for none."""
    try:
        promises()
    except Exception as error:  # of a compiler that lacks its libraries or its room: the parent works on without
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    serve(answer)
