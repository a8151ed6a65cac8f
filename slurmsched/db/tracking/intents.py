"""Intents: requests to Slurm, recorded separately from its answers and from the observed effects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ...cluster.actions import ACTIONS, Action, Share, job_of
from ...cluster.actions.base import OwnIntents
from ...cluster.actions.hold import HOLD_WITHIN_S
from ...cluster.actions.intent import Intent
from ...cluster.actions.observation import Observation
from ...cluster.actions.own_columns import own_columns
from ...cluster.actions.stop import SUSPENDED
from ...cluster.columns import Labels
from ...cluster.filling import NewColumns
from ...cluster.job_tracker import SAME_TIME_S, Delay
from ...cluster.jobs import JobTable
from ...cluster.state import ClusterState

#: The wait after a refusal before the job is written again.
BACK_OFF_S = 600.0
#: Refusals in a row after which that wait applies also to a job on its way to shared GPUs.
EAGER = 4


class Intents:
    """The intents not yet closed; every method returns those it changed, to be saved.

    What an action asks for, how that shows and when nothing is left of it stands in the action's class.
    """

    def __init__(self, intents: Iterable[Intent] = ()) -> None:
        self._open: dict[tuple[int, str], list[Intent]] = {}
        self._answered: dict[tuple[int, int, str], Intent] = {}  # accepted lately, of the kinds that are remembered
        self._forgotten_s = -math.inf  # answers until then are not kept any more
        self._latest_s = -math.inf  # no time in here is later
        self._refused_s: dict[int, float] = {}
        self._share_refusals: dict[int, tuple[float, str]] = {}
        self._refusals: dict[int, int] = {}  # in a row, by job on its way to shared GPUs
        self._kept: dict[int, int] = {}  # refusals in a row to give a job its own back
        self.adopt(intents)

    def adopt(self, intents: Iterable[Intent]) -> None:
        """Add *intents* that an earlier process made."""
        for intent in intents:
            kind = ACTIONS[intent.kind]
            self._remember(intent)
            self._latest_s = max(self._latest_s, intent.requested_s, intent.answered_s or intent.requested_s)
            if intent.refused not in (None, SUSPENDED) and not kind.settled_by_refusal:
                at_s = intent.answered_s if intent.answered_s is not None else intent.requested_s
                self._refused_s[intent.job_id] = max(at_s, self._refused_s.get(intent.job_id, at_s))
                if kind.of_sharing:
                    self._share_refusals[intent.job_id] = at_s, str(intent.refused)
            if intent.closed_s is None:
                self._open.setdefault((intent.job_id, intent.kind), []).append(intent)

    def not_later_than(self, now_s: float) -> None:
        """Limit all times to *now_s*: after the wall clock was set back, a wait starts anew and lasts no longer.

        Otherwise a wait that began while the clock was a day ahead would last until that day is over.
        """
        latest_s, self._latest_s = self._latest_s, min(self._latest_s, now_s)
        if latest_s == self._latest_s:
            return
        self._refused_s = {job: min(at_s, now_s) for job, at_s in self._refused_s.items()}
        self._forgotten_s = min(self._forgotten_s, now_s)
        for at, intent in self._answered.items():
            if intent.answered_s is not None and intent.answered_s > now_s:
                self._answered[at] = _not_later_than(intent, now_s)
        for key, same in self._open.items():
            if any(max(intent.requested_s, intent.answered_s or 0.0) > now_s for intent in same):
                self._open[key] = [_not_later_than(intent, now_s) for intent in same]

    def __iter__(self) -> Iterator[Intent]:
        return (intent for same in self._open.values() for intent in same)

    def intend(self, cycle: int, actions: Iterable[Action], now_s: float) -> list[Intent]:
        """Record *actions* before they are sent."""
        made = [Intent(job_of(a), a.stored, a.value, now_s, cycle) for a in actions]
        self._latest_s = max(self._latest_s, now_s)
        for intent in made:
            same = self._open.setdefault((intent.job_id, intent.kind), [])
            same[:] = [other for other in same if other.cycle != cycle] + [intent]
        return made

    def answered(self, cycle: int, answers: Iterable[tuple[Action, str | None]], now_s: float) -> list[Intent]:
        """Record Slurm's answers: acceptance replaces older intents of the kind, a refusal closes this one."""
        changed: list[Intent] = []
        self._latest_s = max(self._latest_s, now_s)
        for action, refused in answers:
            job_id, kind = job_of(action), action.stored
            same = self._open.get((job_id, kind), [])
            mine = next((intent for intent in same if intent.cycle == cycle), None)
            mine = mine or Intent(job_id, kind, action.value, now_s, cycle)
            # Some refused changes may have taken effect, at least in part, which the next observation shows.
            over = refused is not None and not action.stays_open(mine, refused)
            mine = mine._replace(answered_s=now_s, refused=refused, closed_s=now_s if over else None)
            self._remember(mine)
            if action.of_sharing:
                self._refusals[job_id] = self._refusals.get(job_id, 0) + 1 if refused is not None else 0
                if refused is not None:
                    self._share_refusals[job_id] = now_s, refused
            if action.can_end_change():
                self._kept[job_id] = self._kept.get(job_id, 0) + 1 if refused is not None else 0
            others = [intent for intent in same if intent.cycle != cycle]
            if not over and action.accumulates:  # slurmctld may fall back to what an earlier one wrote
                others.append(mine)
            elif not over:
                changed += [other._replace(closed_s=now_s) for other in others]
                others = [mine]
            if refused is not None and not action.settled_by_refusal:
                self._refused_s[job_id] = now_s
            changed.append(mine)
            self._thin_out((job_id, kind), others)
        return changed

    def forget_former(self, submitted_s: Mapping[int, float], now_s: float) -> list[Intent]:
        """Close requests for earlier jobs with the same ids, older than the first submit times in *submitted_s*."""
        changed: list[Intent] = []
        for key, same in list(self._open.items()):
            if (since_s := submitted_s.get(key[0])) is not None:
                old = [intent for intent in same if intent.requested_s < since_s - SAME_TIME_S]
                changed += [intent._replace(closed_s=now_s) for intent in old]
                self._thin_out(key, [intent for intent in same if intent not in old])
        for job_id in submitted_s.keys() & self._refused_s.keys():
            if self._refused_s[job_id] < submitted_s[job_id] - SAME_TIME_S:
                del self._refused_s[job_id]
        return changed

    def observe(self, state: ClusterState, requeued: Iterable[int], now_s: float) -> list[Intent]:
        """Mark intents as seen or closed by an observation of the cluster. *requeued* are jobs just queued again."""
        if not self._open:
            return []
        look = Observation(state, frozenset(requeued), now_s)
        changed: list[Intent] = []
        undone: list[tuple[int, str]] = []
        for key, same in list(self._open.items()):
            fresh = [judged(intent, look) for intent in same]
            news = [new for new, old in zip(fresh, same, strict=True) if new is not old]
            undoes = ACTIONS[key[1]].undoes
            if not news and not undoes:
                continue
            changed += news
            for intent in news:
                self._remember(intent)
            if any(new.seen_s is not None for new in fresh):
                undone += [(key[0], kind) for kind in undoes]
            self._thin_out(key, [intent for intent in fresh if intent.closed_s is None])
        for key in dict.fromkeys(undone):
            changed += [intent._replace(closed_s=now_s) for intent in self._open.pop(key, [])]
        return changed

    def delays(self) -> dict[int, Delay]:
        """Return the begin times that we may have set, by job."""
        found: dict[int, Delay] = {}
        for intent in self:
            if (longest_s := ACTIONS[intent.kind].delays_s) is None:
                continue
            until_s = intent.value if isinstance(intent.value, int | float) else intent.requested_s + longest_s
            before = found.get(intent.job_id, Delay(-math.inf, -math.inf))
            found[intent.job_id] = Delay(
                max(intent.requested_s, before.asked_s), max(until_s + HOLD_WITHIN_S, before.until_s)
            )
        return found

    def modifications(self) -> set[tuple[int, str]]:
        """Return our requested changes that no observation has shown yet: job ids with ``JobModified.what``."""
        named = ((intent, ACTIONS[intent.kind].modifies) for intent in self if intent.seen_s is None)
        return {(intent.job_id, what) for intent, what in named if what}

    def columns(self, state: ClusterState, now_s: float) -> NewColumns:
        """Return what of the jobs in *state* is ours: points, holds, stops, sizes, nodes, shared GPUs."""
        self._forget(now_s)
        words = {
            "pending": self._refusals_of_sharing(state.pending),
            "running": self._refusals_of_sharing(state.running),
        }
        return own_columns(state, OwnIntents.among(self, self._answered.values()), now_s, words)

    def optional_columns(self) -> frozenset[str]:
        """Return the columns that an observation must have to tell what of pending jobs is ours."""
        known = (*self, *self._answered.values())
        return frozenset(name for intent in known for name in ACTIONS[intent.kind].reads(intent))

    def recently_refused(self, now_s: float) -> set[int]:
        """Return jobs with a write refused in the last ten minutes, except those that must complete a change."""
        self._refused_s = {job: at_s for job, at_s in self._refused_s.items() if now_s - at_s < BACK_OFF_S}
        self._refusals = {job: often for job, often in self._refusals.items() if often and job in self._refused_s}
        completes = {job for job in self._refused_s if (job, Share.stored) in self._open}
        return {job for job in self._refused_s if job not in completes or self._refusals.get(job, 0) >= EAGER}

    def kept_by_refusals(self) -> set[int]:
        """Return jobs that Slurm refused several times in a row, and a short while ago, to give their own back."""
        self._kept = {job: often for job, often in self._kept.items() if often and job in self._refused_s}
        return {job for job, often in self._kept.items() if often >= EAGER}

    def validate(self) -> None:
        """Raise AssertionError where an intent is misplaced, twice or closed, or one to remember was forgotten."""
        for (job_id, kind), same in self._open.items():
            name = f"{kind} of job {job_id}"
            assert same, f"{name} has an empty list"
            assert all((intent.job_id, intent.kind) == (job_id, kind) for intent in same), f"{name} is of another"
            assert all(intent.closed_s is None for intent in same), f"{name} is closed and in the list of open ones"
            assert len({intent.cycle for intent in same}) == len(same), f"{name} is open twice in one cycle"
        for intent in self:
            if _is_remembered(intent) and (intent.answered_s or 0.0) > self._forgotten_s:
                assert intent.key in self._answered, f"{intent.kind} of job {intent.job_id} is not remembered"
        assert all(often >= 0 for often in self._refusals.values()), "a job was refused less than never"

    def _refusals_of_sharing(self, jobs: JobTable) -> Labels:
        """Return Slurm's refusal, within ten minutes, to change each of *jobs* to shared GPUs or back; else empty."""
        if not self._share_refusals:
            return Labels(np.zeros(len(jobs), dtype=np.int64), ("",))
        rows = zip(jobs.job_id.tolist(), jobs.first_submit_s.tolist(), strict=True)
        return Labels.of([self._share_refusal(job, first_s) for job, first_s in rows])

    def _share_refusal(self, job_id: int, first_submit_s: float) -> str:
        at_s, words = self._share_refusals.get(job_id, (math.inf, ""))
        return "" if at_s < first_submit_s - SAME_TIME_S else words  # before that another job had the id

    def _remember(self, intent: Intent) -> None:
        """Keep an accepted request of a kind that counts for a while after it is closed."""
        if _is_remembered(intent):
            self._answered[intent.key] = intent
        else:
            self._answered.pop(intent.key, None)

    def _forget(self, now_s: float) -> None:
        """Drop what is remembered no longer."""
        kept = {kind.stored: kind.remembered_s for kind in ACTIONS.values() if kind.remembered_s}
        self._answered = {
            key: intent
            for key, intent in self._answered.items()
            if intent.answered_s is not None and intent.answered_s > now_s - kept[intent.kind]
        }
        self._forgotten_s = now_s - min(kept.values(), default=0.0)
        self._share_refusals = {
            job: refusal for job, refusal in self._share_refusals.items() if now_s - refusal[0] < BACK_OFF_S
        }

    def _thin_out(self, key: tuple[int, str], same: list[Intent]) -> None:
        if same:
            self._open[key] = same
        else:
            self._open.pop(key, None)


def judged(intent: Intent, look: Observation) -> Intent:
    """Return *intent* itself, or a copy with ``seen_s``, ``closed_s`` or ``refused`` filled in by an observation."""
    kind = ACTIONS[intent.kind]
    if why := kind.in_vain(intent, look):
        intent = intent._replace(refused=why)
    seen_s = intent.seen_s
    if seen_s is None and kind.seen(intent, look):
        seen_s = look.now_s
    over = not look.shows(intent.job_id) or kind.over(intent, look, seen_s is not None)
    closed_s = look.now_s if over else None
    if seen_s == intent.seen_s and closed_s is None:
        return intent
    return intent._replace(seen_s=seen_s, closed_s=closed_s)


def _is_remembered(intent: Intent) -> bool:
    accepted = intent.answered_s is not None and intent.refused in (None, SUSPENDED)
    return accepted and ACTIONS[intent.kind].remembered_s > 0


def _not_later_than(intent: Intent, now_s: float) -> Intent:
    answered_s = None if intent.answered_s is None else min(intent.answered_s, now_s)
    return intent._replace(requested_s=min(intent.requested_s, now_s), answered_s=answered_s)
