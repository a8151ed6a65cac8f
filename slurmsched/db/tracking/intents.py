"""Intents: requests to Slurm, recorded separately from its answers and from the observed effects."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, replace

import numpy as np

from ...cluster.actions import Action, job_of, spelling
from ...cluster.avoided import BETWEEN, Avoided
from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.exclusions import UNREAD, same_nodes
from ...cluster.job_tracker import SAME_TIME_S, Delay, held_rows
from ...cluster.jobs import JobTable
from ...cluster.node_request import read_request
from ...cluster.reasons import ReasonKind, where_kind
from ...cluster.resized_request import gpus_asked, nodes_taken
from ...cluster.state import ClusterState
from .intent_effects import HOLD_WITHIN_S, QUEUES_AGAIN, SUSPENDED, IntentEffects, is_untouched, sizes_in
from .intent_records import Intent, left_nodes, value_of

#: Slurm delays a requeued job until its old credential has expired (cred_expire, 120 s by default, and a second).
REQUEUE_DELAY_S = 600.0
#: The wait after a refusal before the job is written again.
BACK_OFF_S = 600.0
#: Refusals in a row after which that wait applies also to a job on its way to shared GPUs.
EAGER = 4
#: The period over which the stop requests of a job are counted.
ASKS_S = 86_400.0

_GIVES_BACK = ("Release", "Unmark", "Unshare")
_ENDS = ("MovePartition", "Unsteer", "RestoreSize", "Resize")
_SHARING = ("Share", "StartShared", "Unmark", "Unshare")

#: Actions of which all that were sent may be in force.
_STAYING = ("MovePartition", "Steer", "Rightsize", "Resize", "Avoid")

#: Actions that set a StartTime, and its distance in seconds where the value does not hold it.
_DELAYS_S = {
    **dict.fromkeys(("Hold", "Release", "Unmark"), 0.0),
    **dict.fromkeys(("Share", "StartShared", "Unshare"), 3600.0),
}

#: The change that an observation shows after each action, by its name in ``JobModified.what``.
_MODIFIES = {
    "Suspend": "suspended",
    "Resume": "resumed",
    **dict.fromkeys(("MovePartition", "Share", "Unshare"), "partition"),
}


class Intents:
    """The intents not yet closed; every method returns those it changed, to be saved."""

    def __init__(self, intents: Iterable[Intent] = ()) -> None:
        self._open: dict[tuple[int, str], list[Intent]] = {}
        self._refused_s: dict[int, float] = {}
        self._share_refusals: dict[int, tuple[float, str]] = {}
        self._refusals: dict[int, int] = {}  # in a row, by job on its way to shared GPUs
        self._kept: dict[int, int] = {}  # refusals in a row to give a job its own back
        self._asked_s: dict[int, dict[float, bool]] = {}  # times of stop requests; True if the job could act
        self._left: dict[int, dict[float, str]] = {}  # nodes that such requests asked jobs to leave, answered ones
        self.adopt(intents)

    def adopt(self, intents: Iterable[Intent]) -> None:
        """Add *intents* that an earlier process made."""
        for intent in intents:
            self._count(intent)
            if intent.refused not in (None, SUSPENDED) and intent.kind != "Tell":
                at_s = intent.answered_s if intent.answered_s is not None else intent.requested_s
                self._refused_s[intent.job_id] = max(at_s, self._refused_s.get(intent.job_id, at_s))
                if intent.kind in _SHARING:
                    self._share_refusals[intent.job_id] = at_s, str(intent.refused)
            if intent.closed_s is None:
                self._open.setdefault((intent.job_id, intent.kind), []).append(intent)

    def not_later_than(self, now_s: float) -> None:
        """Limit all times to *now_s*: after the wall clock was set back, a wait starts anew and lasts no longer.

        Otherwise a wait that began while the clock was a day ahead would last until that day is over.
        """
        self._refused_s = {job: min(at_s, now_s) for job, at_s in self._refused_s.items()}
        for job, asked_s in self._asked_s.items():
            if max(asked_s) > now_s:
                self._asked_s[job] = {min(at_s, now_s): acted for at_s, acted in asked_s.items()}
        for job, left in self._left.items():
            self._left[job] = {min(at_s, now_s): nodes for at_s, nodes in left.items()}
        for key, same in self._open.items():
            if any(max(intent.requested_s, intent.answered_s or 0.0) > now_s for intent in same):
                self._open[key] = [_not_later_than(intent, now_s) for intent in same]

    def __iter__(self) -> Iterator[Intent]:
        return (intent for same in self._open.values() for intent in same)

    def intend(self, cycle: int, actions: Iterable[Action], now_s: float) -> list[Intent]:
        """Record *actions* before they are sent."""
        made = [Intent(job_of(a), spelling(a), value_of(a), now_s, cycle) for a in actions]
        for intent in made:
            same = self._open.setdefault((intent.job_id, intent.kind), [])
            same[:] = [other for other in same if other.cycle != cycle] + [intent]
        return made

    def answered(self, cycle: int, answers: Iterable[tuple[Action, str | None]], now_s: float) -> list[Intent]:
        """Record Slurm's answers: acceptance replaces older intents of the kind, a refusal closes this one."""
        changed: list[Intent] = []
        for action, refused in answers:
            job_id, kind = job_of(action), spelling(action)
            same = self._open.get((job_id, kind), [])
            mine = next((intent for intent in same if intent.cycle == cycle), None)
            mine = mine or Intent(job_id, kind, value_of(action), now_s, cycle)
            # A refused comment stays open, else it would be sent again and again. Other changes of a request stay open
            # because they may have taken effect, at least in part, which the next observation shows.
            over = refused is not None and kind not in ("Tell", "Share") and not _may_be_there(mine, refused)
            mine = replace(mine, answered_s=now_s, refused=refused, closed_s=now_s if over else None)
            self._count(mine)
            if kind in _SHARING:
                self._refusals[job_id] = self._refusals.get(job_id, 0) + 1 if refused is not None else 0
                if refused is not None:
                    self._share_refusals[job_id] = now_s, refused
            if kind in _ENDS:
                self._kept[job_id] = self._kept.get(job_id, 0) + 1 if refused is not None else 0
            others = [intent for intent in same if intent.cycle != cycle]
            if not over and kind in _STAYING:  # slurmctld may fall back to what an earlier one wrote
                others.append(mine)
            elif not over:
                changed += [replace(other, closed_s=now_s) for other in others]
                others = [mine]
            else:
                self._refused_s[job_id] = now_s
            if refused is not None and not over and kind != "Tell":
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
                changed += [replace(intent, closed_s=now_s) for intent in old]
                self._thin_out(key, [intent for intent in same if intent not in old])
        for job_id in submitted_s.keys() & self._refused_s.keys():
            if self._refused_s[job_id] < submitted_s[job_id] - SAME_TIME_S:
                del self._refused_s[job_id]
        return changed

    def observe(self, state: ClusterState, requeued: Iterable[int], now_s: float) -> list[Intent]:
        """Mark intents as seen or closed by an observation of the cluster. *requeued* are jobs just queued again."""
        if not self._open:
            return []
        look = IntentEffects(state, set(requeued), now_s)
        changed: list[Intent] = []
        released: set[int] = set()
        unshared: set[int] = set()
        for key, same in list(self._open.items()):
            fresh = [look.judge(intent) for intent in same]
            news = [new for new, old in zip(fresh, same, strict=True) if new is not old]
            if not news and key[1] not in _GIVES_BACK:
                continue
            changed += news
            for intent in news:
                self._count(intent)
            released |= {new.job_id for new in fresh if new.kind == "Release" and new.seen_s is not None}
            unshared |= {new.job_id for new in fresh if new.kind in ("Unmark", "Unshare") and new.seen_s is not None}
            self._thin_out(key, [intent for intent in fresh if intent.closed_s is None])
        for job_id in released:
            changed += [replace(hold, closed_s=now_s) for hold in self._open.pop((job_id, "Hold"), [])]
        for job_id in unshared:
            changed += [replace(share, closed_s=now_s) for share in self._open.pop((job_id, "Share"), [])]
        return changed

    def holds(self) -> tuple[IntArray, FloatArray]:
        """Return the ids of the jobs we hold, and the end times of the holds."""
        held = [(intent.job_id, intent.value) for intent in self if intent.kind == "Hold"]
        return np.array([job for job, _ in held], dtype=np.int64), np.array([s for _, s in held], dtype=np.float64)

    def delays(self) -> dict[int, Delay]:
        """Return the begin times that we may have set, by job."""
        found: dict[int, Delay] = {}
        for intent in self:
            if (longest_s := _DELAYS_S.get(intent.kind)) is None:
                continue
            until_s = intent.value if isinstance(intent.value, int | float) else intent.requested_s + longest_s
            before = found.get(intent.job_id, Delay(-math.inf, -math.inf))
            found[intent.job_id] = Delay(
                max(intent.requested_s, before.asked_s), max(until_s + HOLD_WITHIN_S, before.until_s)
            )
        return found

    def modifications(self) -> set[tuple[int, str]]:
        """Return our requested changes that no observation has shown yet: job ids with ``JobModified.what``."""
        return {(i.job_id, _MODIFIES[i.kind]) for i in self if i.kind in _MODIFIES and i.seen_s is None}

    def held(self, pending: JobTable, now_s: float) -> BoolArray:
        """Return a mask of *pending*: jobs that wait for our hold, or for Slurm's delay after a requeue of ours."""
        held = held_rows(pending, *self.holds(), now_s=now_s, within_s=HOLD_WITHIN_S)
        requeued = [intent.job_id for intent in self if intent.kind in QUEUES_AGAIN and intent.seen_s is not None]
        if requeued:
            delay_s = pending.eligible_s - np.maximum(pending.submitted_s, now_s - REQUEUE_DELAY_S)
            delayed = (pending.eligible_s > now_s) & (delay_s <= REQUEUE_DELAY_S)
            held |= np.isin(pending.job_id, requeued) & delayed
        return held

    def points(self, pending: JobTable, now_s: float) -> IntArray:
        """Return the points of *pending* jobs; where Slurm shows none for a begin time ahead, those we gave last."""
        hidden = np.flatnonzero((pending.eligible_s > now_s) & (pending.site_points == 0)).tolist()
        if not hidden:
            return pending.site_points
        points_of = {i.job_id: i.value for i in self if i.kind == "Rank" and i.answered_s is not None}
        points = pending.site_points.copy()
        for row in hidden:
            value = points_of.get(int(pending.job_id[row]))
            if isinstance(value, int) and value < pending.priority[row]:
                points[row] = value
        return points

    def ask_counts(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, IntArray]:
        """Return the time of the last stop request to each of *jobs* within a day (NaN for none), and their number.

        A request that Slurm never answered may have been sent: it counts in the number, but not for the time. The
        same holds for a request to a job that was suspended.
        """
        self._asked_s = {
            job: recent
            for job, recent_asks in self._asked_s.items()
            if (recent := {at_s: acted for at_s, acted in recent_asks.items() if at_s > now_s - ASKS_S})
        }
        last_s, often = np.full(len(jobs), np.nan), np.zeros(len(jobs), dtype=np.int64)
        unsure: Counter[int] = Counter()
        for intent in self:
            if intent.kind == "AskToStop" and intent.answered_s is None and intent.requested_s > now_s - ASKS_S:
                unsure[intent.job_id] += 1
        if jobs_asked := self._asked_s.keys() | unsure.keys():
            for row in np.flatnonzero(np.isin(jobs.job_id, list(jobs_asked))).tolist():
                job = int(jobs.job_id[row])
                since_s = jobs.first_submit_s[row] - SAME_TIME_S  # before that another job had the id
                recent_asks = {at_s: acted for at_s, acted in self._asked_s.get(job, {}).items() if not at_s < since_s}
                last_s[row] = max((at_s for at_s, acted in recent_asks.items() if acted), default=np.nan)
                often[row] = len(recent_asks) + unsure[job]
        return last_s, often

    def comments(self, jobs: JobTable) -> Labels:
        """Return the last AdminComment that we sent for each of *jobs*, accepted or refused."""
        comment_of = {i.job_id: str(i.value) for i in self if i.kind == "Tell" and i.answered_s is not None}
        if not comment_of:
            return Labels(np.zeros(len(jobs), dtype=np.int64), ("",))
        return Labels.of([comment_of.get(job, "") for job in jobs.job_id.tolist()])

    def sharing(self, jobs: JobTable) -> tuple[BoolArray, Labels, BoolArray]:
        """Return a mask of *jobs* that share GPUs or are about to, their original requests, and a mask of those undone.

        Our record counts, not the token: an owner may have written another comment since.
        """
        share_of = {intent.job_id: str(intent.value) for intent in self if intent.kind == "Share"}
        given_back = np.isin(jobs.job_id, [intent.job_id for intent in self if intent.kind == "Unshare"])
        rows = np.flatnonzero(np.isin(jobs.job_id, list(share_of))).tolist()
        shares = np.zeros(len(jobs), dtype=np.bool_)
        shares[[row for row in rows if not is_untouched(jobs, row)]] = True
        ids, names = jobs.job_id.tolist(), [""]
        codes = np.zeros(len(jobs), dtype=np.int64)
        for row in np.flatnonzero(shares).tolist():
            codes[row] = len(names)
            names.append(share_of[ids[row]])
        return shares, Labels(codes, tuple(names)), given_back

    def steered(self, pending: JobTable) -> tuple[Labels, FloatArray]:
        """Return the types to which we sent each of *pending*, empty for none, and when; for others when we let it go.

        They count while its excluded nodes are those that we wrote, answered or not: a list of others is theirs.
        """
        ours: dict[int, list[Intent]] = {}
        let_go_s: dict[int, float] = {}
        for intent in self:
            if intent.kind == "Steer":
                ours.setdefault(intent.job_id, []).append(intent)
            elif intent.kind == "Unsteer":
                let_go_s[intent.job_id] = max(intent.requested_s, let_go_s.get(intent.job_id, 0.0))
        names, codes, times_s = [""], np.zeros(len(pending), dtype=np.int64), np.zeros(len(pending))
        for row in np.flatnonzero(np.isin(pending.job_id, [*ours, *let_go_s])).tolist():
            job, excluded = int(pending.job_id[row]), pending.excluded_nodes[row]
            times_s[row] = let_go_s.get(job, 0.0)
            for intent in sorted(ours.get(job, []), key=lambda intent: intent.requested_s):
                types, _, nodes = str(intent.value).partition(" ")
                if same_nodes(excluded, nodes):
                    times_s[row] = intent.requested_s
                    codes[row] = len(names)
                    names.append(types)
        return Labels(codes, tuple(names)).renamed(names), times_s

    def moved(self, pending: JobTable) -> Labels:
        """Return the partitions that the owners of *pending* jobs asked for, where the present ones are ours.

        They are while they are those that we wrote, answered or not: others are theirs.
        """
        own_of: dict[int, dict[str, str]] = {}
        for intent in sorted((i for i in self if i.kind == "MovePartition"), key=lambda intent: intent.requested_s):
            given, _, own = str(intent.value).partition(" ")
            own_of.setdefault(intent.job_id, {})[given] = own if own != given else ""
        if not own_of:
            return Labels(np.zeros(len(pending), dtype=np.int64), ("",))
        rows = zip(pending.job_id.tolist(), pending.partition, strict=True)
        return Labels.of([own_of.get(job, {}).get(present, "") for job, present in rows])

    def left(self, jobs: JobTable, now_s: float) -> tuple[Labels, FloatArray]:
        """Return the nodes that each of *jobs* was last asked to leave within a day, empty for none, and when.

        A request that Slurm never answered may have been sent, and counts.
        """
        since_s = now_s - ASKS_S
        recent = {job: {at_s: n for at_s, n in left.items() if at_s > since_s} for job, left in self._left.items()}
        self._left = {job: left for job, left in recent.items() if left}
        latest = {job: max(left.items()) for job, left in self._left.items()}
        for intent in self:
            if intent.answered_s is None and (nodes := left_nodes(intent)):
                latest[intent.job_id] = max(latest.get(intent.job_id, (since_s, "")), (intent.requested_s, nodes))
        names, codes, times_s = [""], np.zeros(len(jobs), dtype=np.int64), np.zeros(len(jobs))
        for row in np.flatnonzero(np.isin(jobs.job_id, list(latest))).tolist():
            at_s, nodes = latest[int(jobs.job_id[row])]
            if at_s >= jobs.first_submit_s[row] - SAME_TIME_S:  # before that another job had the id
                codes[row], times_s[row] = len(names), at_s
                names.append(nodes)
        return Labels(codes, tuple(names)).renamed(names), times_s

    def resized(self, jobs: JobTable) -> tuple[IntArray, FloatArray, IntArray, BoolArray, IntArray]:
        """Return the GPUs that the owners of *jobs* asked for, 0 where we changed nothing, and when we last changed it.

        Further, the GPUs on each node where we changed the number of nodes with them, 0 of the others; a mask of those
        of which Slurm took a change in part; and the nodes that it took then, 0 where it took no nodes so. A job is
        changed by us while it asks for a number that we wrote, answered or not: another one is theirs. It may ask for
        one of both numbers while Slurm counts the other.
        """
        ours: dict[int, list[Intent]] = {}
        for intent in self:
            if intent.kind == "Resize":
                ours.setdefault(intent.job_id, []).append(intent)
        (own, each), times_s = np.zeros((2, len(jobs)), dtype=np.int64), np.zeros(len(jobs))
        half, taken = np.zeros(len(jobs), dtype=np.bool_), np.zeros(len(jobs), dtype=np.int64)
        for row in np.flatnonzero(np.isin(jobs.job_id, list(ours))).tolist():
            mine = [sizes_in(intent.value) for intent in ours[int(jobs.job_id[row])]]
            times_s[row] = max(intent.requested_s for intent in ours[int(jobs.job_id[row])])
            known = {number for gpus, asked_for, _ in mine for number in (gpus, asked_for)}
            for gpus, asked_for, on_each in mine:
                nodes = nodes_taken(jobs, row, on_each) if on_each else 0
                shown = {int(jobs.gpus[row]), gpus_asked(jobs, row)}
                if nodes and jobs.gpus[row] in known and nodes * on_each == gpus:
                    own[row], each[row], half[row], taken[row] = asked_for, on_each, True, nodes
                elif not nodes and gpus in shown <= {gpus, asked_for} != {asked_for}:
                    own[row], each[row], half[row] = asked_for, on_each, len(shown) > 1
        return own, times_s, each, half, taken

    def sized(self, pending: JobTable) -> tuple[Labels, FloatArray, BoolArray, BoolArray]:
        """Return what the owners of *pending* jobs asked for, where the present CPUs and memory are ours; else empty.

        Further, when we last changed them or gave them back, and a mask of jobs that somebody else changed after us:
        they ask for something else, or again for their own though we saw ours in force and did not give them back. The
        last is a mask of those of which Slurm took our change in part: such a request is ours by our intent alone.
        """
        ours: dict[int, list[Intent]] = {}
        restored: dict[int, list[Intent]] = {}
        for intent in self:
            if intent.kind in ("Rightsize", "RestoreSize"):
                (ours if intent.kind == "Rightsize" else restored).setdefault(intent.job_id, []).append(intent)
        names, codes = [""], np.zeros(len(pending), dtype=np.int64)
        times_s, (theirs, half) = np.zeros(len(pending)), np.zeros((2, len(pending)), dtype=np.bool_)
        stuck = where_kind(pending.reason, pending.partition, ReasonKind.CANNOT_RUN)
        for row in np.flatnonzero(np.isin(pending.job_id, list(ours))).tolist():
            job, present = int(pending.job_id[row]), pending.node_request[row]
            if present == UNREAD:
                continue
            mine = sorted(ours[job], key=lambda intent: intent.requested_s)
            backs = restored.get(job, [])
            times_s[row] = max(intent.requested_s for intent in (*mine, *backs))
            own_of = {given: own for own, _, given in (str(intent.value).partition(" ") for intent in mine)}
            if present in own_of:
                codes[row] = len(names)
                names.append(own_of[present])
                continue
            back_s = max((intent.requested_s for intent in backs), default=-math.inf)
            done_s = max((i.requested_s for i in backs if i.answered_s is not None), default=-math.inf)
            if mine[-1].requested_s > done_s and _half_taken(mine[-1], present, bool(stuck[row])):
                half[row], codes[row] = True, len(names)
                names.append(str(mine[-1].value).partition(" ")[0])
                continue
            if not present:
                continue
            unseen = all(intent.seen_s is None for intent in mine if intent.requested_s > back_s)
            theirs[row] = not (unseen and present in own_of.values())
        return Labels(codes, tuple(names)).renamed(names), times_s, theirs, half

    def avoided(self, jobs: JobTable) -> Labels:
        """Return our changes of *jobs* that kept them from starting, and are not repeated: the column ``avoided``."""
        notes: dict[int, list[str]] = {}
        for intent in sorted((i for i in self if i.kind == "Avoid"), key=lambda intent: intent.requested_s):
            changes, _, rest = str(intent.value).partition(" ")
            request, limits, reason = rest.split(" ", 2)
            note = Avoided(changes, intent.requested_s, request, limits, reason)
            notes.setdefault(intent.job_id, []).append(str(note))
        if not notes:
            return Labels(np.zeros(len(jobs), dtype=np.int64), ("",))
        return Labels.of([BETWEEN.join(notes.get(job, ())) for job in jobs.job_id.tolist()])

    def optional_columns(self) -> frozenset[str]:
        """Return the columns that an observation must have to tell what of pending jobs is ours."""
        kinds = {kind for _, kind in self._open}
        excluded = "Steer" in kinds or bool(self._left) or any(left_nodes(intent) for intent in self)
        by_nodes = any(intent.kind == "Resize" and sizes_in(intent.value)[2] for intent in self)
        needed = {"excluded_nodes": excluded, "node_request": "Rightsize" in kinds, "node_range": by_nodes}
        return frozenset(name for name, is_needed in needed.items() if is_needed)

    def share_refusals(self, jobs: JobTable, now_s: float) -> Labels:
        """Return Slurm's refusal, within ten minutes, to change each of *jobs* to shared GPUs or back; else empty."""
        self._share_refusals = {
            job: refusal for job, refusal in self._share_refusals.items() if now_s - refusal[0] < BACK_OFF_S
        }
        if not self._share_refusals:
            return Labels(np.zeros(len(jobs), dtype=np.int64), ("",))
        rows = zip(jobs.job_id.tolist(), jobs.first_submit_s.tolist(), strict=True)
        return Labels.of([self._share_refusal(job, first_s) for job, first_s in rows])

    def _share_refusal(self, job_id: int, first_submit_s: float) -> str:
        at_s, words = self._share_refusals.get(job_id, (math.inf, ""))
        return "" if at_s < first_submit_s - SAME_TIME_S else words  # before that another job had the id

    def recently_refused(self, now_s: float) -> set[int]:
        """Return jobs with a write refused in the last ten minutes, except those that must complete a change."""
        self._refused_s = {job: at_s for job, at_s in self._refused_s.items() if now_s - at_s < BACK_OFF_S}
        self._refusals = {job: often for job, often in self._refusals.items() if often and job in self._refused_s}
        return {
            job for job in self._refused_s if (job, "Share") not in self._open or self._refusals.get(job, 0) >= EAGER
        }

    def kept_by_refusals(self) -> set[int]:
        """Return jobs that Slurm refused several times in a row, and a short while ago, to give their own back."""
        self._kept = {job: often for job, often in self._kept.items() if often and job in self._refused_s}
        return {job for job, often in self._kept.items() if often >= EAGER}

    def validate(self) -> None:
        """Raise AssertionError where an intent is misplaced, twice or closed, or a stop request is not counted."""
        for (job_id, kind), same in self._open.items():
            name = f"{kind} of job {job_id}"
            assert same, f"{name} has an empty list"
            assert all((intent.job_id, intent.kind) == (job_id, kind) for intent in same), f"{name} is of another"
            assert all(intent.closed_s is None for intent in same), f"{name} is closed and in the list of open ones"
            assert len({intent.cycle for intent in same}) == len(same), f"{name} is open twice in one cycle"
        for intent in self:
            counted = self._asked_s.get(intent.job_id, {})
            if _is_answered_ask(intent) and counted:  # the oldest are forgotten first
                at_s = intent.answered_s or 0.0
                assert at_s in counted or at_s < min(counted), f"a stop request to job {intent.job_id} is not counted"
        assert all(self._asked_s.values()), "a job without stop requests is among those that were asked"
        assert all(often >= 0 for often in self._refusals.values()), "a job was refused less than never"

    def _count(self, intent: Intent) -> None:
        """Record a stop request that Slurm answered."""
        if _is_answered_ask(intent) and intent.answered_s is not None:
            self._asked_s.setdefault(intent.job_id, {})[intent.answered_s] = intent.refused is None
            if nodes := left_nodes(intent):
                self._left.setdefault(intent.job_id, {})[intent.answered_s] = nodes
            elif intent.job_id in self._left:  # it was suspended
                self._left[intent.job_id].pop(intent.answered_s, None)

    def _thin_out(self, key: tuple[int, str], same: list[Intent]) -> None:
        if same:
            self._open[key] = same
        else:
            self._open.pop(key, None)


def _half_taken(intent: Intent, present: str, stuck: bool) -> bool:
    """Return True where CPUs and memory are in part those of *intent*: no others than those and the former ones.

    A *present* request that cannot be read contradicts itself, since Slurm took over a part; once ours was seen whole,
    that counts only for a job that is *stuck*.
    """
    own, _, given = str(intent.value).partition(" ")
    if not present:
        return stuck or intent.seen_s is None
    parts = (read_request(text) for text in (present, own, given))
    here, before, after = (astuple(part) if part is not None else () for part in parts)
    mixed = all(one in two for one, two in zip(here, zip(before, after, strict=True), strict=True))
    return intent.seen_s is None and mixed and here not in (before, after)


def _may_be_there(intent: Intent, refused: str) -> bool:
    """Return True for a change of a request that Slurm *refused*, and may have taken over all the same (seen on 22.05).

    So it does where a limit of the partition stands against the job, whatever the change. Of what we did not even send
    nothing is there; Slurm's own words end with the job.
    """
    written = intent.kind in ("MovePartition", "Steer", "Resize") and refused.endswith(f"for job {intent.job_id}")
    return written or intent.kind == "Rightsize"


def _is_answered_ask(intent: Intent) -> bool:
    return intent.kind == "AskToStop" and intent.answered_s is not None and intent.refused in (None, SUSPENDED)


def _not_later_than(intent: Intent, now_s: float) -> Intent:
    answered_s = None if intent.answered_s is None else min(intent.answered_s, now_s)
    return replace(intent, requested_s=min(intent.requested_s, now_s), answered_s=answered_s)
