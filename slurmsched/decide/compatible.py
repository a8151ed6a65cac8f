"""Compatible wishes: changes of one job that may not go out together, and those that unread limits may forbid. Pure."""

from __future__ import annotations

from collections.abc import Collection

from ..cluster.actions import Unmark, Unshare, job_of
from ..cluster.limits import why_unread
from .draft import CHANGES, Draft, Lane
from .excluded_nodes import exclude_wishes
from .referee import needs_limits


def keep_compatible(draft: Draft, going_back: Collection[int]) -> None:
    """Leave out moves of jobs that get their own back, and changes of what those ask for that move or get it back.

    So are changes that limits forbid which nobody could read. A job has one list of excluded nodes: of what powers
    want, and of the nodes that it is kept off.
    """
    wishes, back = draft.wishes, (Unshare, Unmark)
    moves = wishes.of(Lane.MOVE)
    wishes.replace(Lane.MOVE, [wish for wish in moves if isinstance(wish, back) or job_of(wish) not in going_back])
    wishes.replace(Lane.EXCLUDE, exclude_wishes(draft.view, draft.kept_off, wishes.of(Lane.EXCLUDE)))
    busy = {*map(job_of, wishes.of(Lane.MOVE)), *going_back}
    unread = why_unread(draft.view.limits)
    for lane in CHANGES:
        some = (wish for wish in wishes.of(lane) if job_of(wish) not in busy)
        wishes.replace(lane, [wish for wish in some if not (unread and needs_limits(wish))])
