"""A process that judges parts of policies for its parent: ``python -m ...conformance.worker FD``.

Code of strangers may hang, crash, print or end its process; none of that belongs in a command. It ends with its parent.
"""

from __future__ import annotations

import os

from ...child_process import serve
from ...policies.registry import import_directly
from .judgement import answer

if __name__ == "__main__":
    import_directly()
    os.dup2(2, 1)  # a part that prints does not disturb the output of the command
    serve(answer)
