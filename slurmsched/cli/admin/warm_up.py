"""``slurmsched warm-up``."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from ..failure import Failed
from ..output import emit, json_option
from ..time_format import span

if TYPE_CHECKING:
    from ..json_answers import WarmedUp


@click.command("warm-up")
@json_option
def warm_up(as_json: bool) -> None:
    """Compile the code of predictions and simulations in advance.

    Later commands then need not wait for the compiler. Run it as root once after each installation: the code goes
    beside the program's own files, for all users. Run by another user, it goes to that user's cache. Takes a minute or
    two, or seconds if nothing has changed. Compiled code of earlier sources is removed. Exit status 1 if the code
    cannot be stored.
    """
    from ...policies.codecache import clean, directories
    from ...policies.compiled import HAVE_NUMBA

    if not HAVE_NUMBA:
        sentence = "there is nothing to compile: Numba is not installed (pip install '.[sim]')"
        facts: WarmedUp = {"compiled": False, "kept": None, "took_s": 0.0}
        return emit(facts, sentence, as_json=as_json)
    os.umask(0o022)  # all users may read it
    from ...foresee import warm_up

    began_s = perf_counter()
    warm_up.warm_up()
    clean(Path(warm_up.__file__).parents[1])
    took_s = perf_counter() - began_s
    directory = directories(Path(warm_up.__file__))[1]
    facts = {"compiled": True, "kept": None if directory is None else str(directory), "took_s": took_s}
    emit(facts, _sentence(directory, took_s), as_json=as_json)
    if directory is None:
        raise Failed(
            "the compiled code cannot be stored: run this as root, or with a directory of your own as NUMBA_CACHE_DIR"
        )
    return None


def _sentence(directory: Path | None, took_s: float) -> str:
    where = "for this moment only" if directory is None else f"kept in {directory} and its like"
    return f"predictions and simulations are compiled, {where}; it took {span(took_s)}"
