"""Which accounts, QOS and partitions a user may submit a job to, as slurmctld decides it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from .sbatch_request import SizeRules
from .text.sbatch_releases import AS_24_11, AS_25_11, AS_26_05

NOT_AVAILABLE = "Required partition not available (inactive or drain)"
INVALID_ACCOUNT = "Invalid account or account/partition combination specified"
INVALID_QOS = "Invalid qos specification"
NOT_IN_GROUP = "User's group not permitted to use this partition"
DENIED = "Access/permission denied"
NO_ROOT = "Invalid user id"
BY_PARTITION = "Multiple partition job request not supported when a partition is set in the association"
"""The words with which slurmctld refuses a job."""

_WAITS_FOR_EVER = {INVALID_QOS: "QOSNotAllowed"}  # the others: AccountNotAllowed
_ASSOCIATIONS, _QOS = "associations", "qos"


@dataclass(frozen=True)
class Association:
    """A user's right to an account, in one partition or in all."""

    qos: frozenset[str]  #: that its jobs may have, in lower case
    default_qos: str = ""


@dataclass(frozen=True)
class PartitionAccess:
    """Who may submit jobs to a partition (slurm.conf(5)); None stands for everybody. Names are in lower case."""

    takes_jobs: bool = True  #: neither inactive nor drained
    accounts: frozenset[str] | None = None
    denied_accounts: frozenset[str] = frozenset()
    qos: frozenset[str] | None = None
    denied_qos: frozenset[str] = frozenset()
    groups: frozenset[str] | None = None  #: of unix, as they are spelled
    root: bool = True
    others: bool = True
    from_anywhere: bool = True  #: from each host, not from some (AllocNodes)
    needs_reservation: bool = False
    tier: int = 1  #: PriorityTier


@dataclass(frozen=True)
class Release:
    """What releases of slurmctld decide differently."""

    inherits_accounts: bool  #: a partition that names an account means those below it too
    accounts_unenforced: bool  #: partitions choose accounts even where associations are not enforced
    groups_are_final: bool  #: one partition of a list that takes other groups alone refuses the whole job
    takes_qos_lists: bool  #: a job may name several QOS
    sizes: SizeRules  #: how it counts nodes, tasks and GPUs
    defaults_where_nodes_are_enough: bool  #: those of the first of several partitions with as many nodes as asked for


OLDEST, SINCE_24_11, SINCE_25_11, SINCE_26_05 = RELEASES = (
    Release(False, True, True, False, SizeRules(), False),
    Release(True, False, False, True, SizeRules(True, True, AS_24_11), False),
    Release(True, False, False, True, SizeRules(True, True, AS_25_11), True),
    Release(True, False, False, True, SizeRules(True, True, AS_26_05, task_on_each_node=True), True),
)
"""As 22.05, 24.11 (and 25.05), 25.11 and 26.05 decide. Which holds for a release between two is not known."""


@dataclass(frozen=True)
class Wish:
    """What a job asks for; None for an account or a QOS that it does not name."""

    user: str
    partitions: tuple[str, ...]
    account: str | None = None
    qos: str | None = None
    has_reservation: bool = False


@dataclass(frozen=True)
class Verdict:
    """What slurmctld makes of a wish."""

    refusal: str = ""  #: in its words; empty where it takes the job
    partitions: tuple[str, ...] = ()  #: in which the job may start; the first that it names where it may in none
    account: str = ""
    qos: str = ""
    reason: str = ""  #: why it will not start although it is taken; a reason of squeue
    unsure: tuple[str, ...] = ()  #: parts of the wish of which it is not known whether they are granted


@dataclass(frozen=True)
class Permissions:
    """What was read of associations, QOS and partitions."""

    enforced: frozenset[str] = frozenset()  #: associations, qos
    part_limits: str = "NO"  #: EnforcePartLimits: NO, ANY or ALL
    releases: tuple[Release, ...] = RELEASES  #: one of these holds
    array_size: int = 0  #: what no index of an array reaches (MaxArraySize); 0 where not read
    masters: frozenset[str] = frozenset({"root"})  #: root and SlurmUser, whom no group keeps out
    partitions: Mapping[str, PartitionAccess] = field(default_factory=dict)
    qos: Mapping[str, bool] | None = None  #: whether a job needs a reservation for it; None where not read
    preempts_by: str = ""  #: whose jobs Slurm stops for others (PreemptType): qos, partition_prio; empty for none
    preempting_qos: frozenset[str] = frozenset()  #: for whose jobs Slurm stops those of other QOS
    associations: Mapping[tuple[str, str, str], Association] | None = None
    """By user, account and partition (empty for all); those of accounts have no user. None where not read."""
    default_accounts: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)

    def verdict(self, wish: Wish, groups: Callable[[str], Collection[str] | None]) -> Verdict:
        """Return what slurmctld makes of *wish*; *groups* returns those of a user, None where they are not known."""
        answers = [_Judge(self, release, wish, groups).verdict() for release in self.releases]
        if all(answer == answers[0] for answer in answers):
            return answers[0]
        unsure = f"--partition={','.join(wish.partitions)} (releases of Slurm differ in whether it takes such a job)"
        return Verdict("", wish.partitions, (wish.account or "").lower(), wish.qos or "", unsure=(unsure,))


@dataclass(frozen=True)
class _Judge:
    """One release of slurmctld with a job before it."""

    known: Permissions
    release: Release
    wish: Wish
    groups: Callable[[str], Collection[str] | None]

    def verdict(self) -> Verdict:
        """Judge in the order of slurmctld: state of the partitions, account, QOS, access to the partitions."""
        wish, known = self.wish, self.known
        takers = tuple(name for name in wish.partitions if self._access(name).takes_jobs)
        if not takers:
            return Verdict(NOT_AVAILABLE)
        account, own = self._association(takers[0])
        if known.associations is not None and own is None and _ASSOCIATIONS in known.enforced:
            return Verdict(INVALID_ACCOUNT)
        if own is not None and any(self._find(account, name) is not own for name in takers):
            return Verdict(BY_PARTITION)
        qos = self._qos(own)
        if not all(self._may_have(name, own) for name in self._names(qos)) or self._is_no_list(qos):
            return Verdict(INVALID_QOS)
        given = Verdict("", takers, account if own or known.associations is None else (wish.account or "").lower(), qos)
        given = replace(given, unsure=self._unsure(takers, account if own else "", qos))
        return self._admitted(given, own is not None)

    def _access(self, name: str) -> PartitionAccess:
        return self.known.partitions.get(name, PartitionAccess())

    def _association(self, partition: str) -> tuple[str, Association | None]:
        """Return the account of the job, and the association that it has with it."""
        asked = self.wish.account
        default = self.known.default_accounts.get(self.wish.user, "")
        account = default if asked is None else asked.lower()
        own = self._find(account, partition)
        if own is None and _ASSOCIATIONS not in self.known.enforced and self.known.associations is not None:
            account, own = default, self._find(default, partition)
        return account, own

    def _find(self, account: str, partition: str) -> Association | None:
        found = self.known.associations or {}
        key = (self.wish.user, account)
        return found.get((*key, partition)) or found.get((*key, ""))

    def _qos(self, own: Association | None) -> str:
        """Return the QOS of the job: its own, else a valid default, else the only one that it or root may have."""
        if self.wish.qos is not None:
            return self.wish.qos.lower()
        if self.known.associations is None:
            return ""
        if own is not None and own.default_qos in own.qos:
            return own.default_qos
        root = self.known.associations.get(("", "root", ""))
        for one in (own, root):
            if one is not None and len(one.qos) == 1:
                return next(iter(one.qos))
        return "normal"

    def _names(self, qos: str) -> list[str]:
        """Return the QOS that the job names, each of which it must be allowed."""
        return list(filter(None, qos.split(","))) if self.release.takes_qos_lists and "," in qos else [qos]

    def _is_no_list(self, qos: str) -> bool:
        """Return whether a list of QOS names fewer than two, or one that there is not: then no job has it."""
        names, there = self._names(qos), self.known.qos
        if not self.release.takes_qos_lists or "," not in qos:
            return False
        return len(set(names)) < 2 or (there is not None and not all(name in there for name in names))

    def _may_have(self, qos: str, own: Association | None) -> bool:
        """Return whether the job may have a QOS, as far as that is known."""
        known = self.known
        if known.qos is None or (known.associations is None and self.wish.qos is None):
            return True
        if known.qos.get(qos, False) and not self.wish.has_reservation:
            return False
        if _QOS not in known.enforced:
            return True
        return qos in known.qos and (own is None or qos in own.qos)

    def _admitted(self, given: Verdict, has_account: bool) -> Verdict:
        """Judge access to the partitions, each on its own and then together, by EnforcePartLimits."""
        account = given.account if has_account else ""
        against = {name: self._against(name, account, given.qos) for name in given.partitions}
        refusals = [words for words in against.values() if words]
        if not refusals:
            return given
        usable = tuple(name for name, words in against.items() if not words)
        final = {DENIED, NO_ROOT, *([NOT_IN_GROUP] if self.release.groups_are_final else [])}
        several, mode = len(self.wish.partitions) > 1, self.known.part_limits
        if mode == "ALL":
            return Verdict(refusals[0])
        if stop := [words for words in refusals if words in final] if mode == "ANY" or not several else []:
            return Verdict(stop[0])
        if usable:
            return replace(given, partitions=usable)
        if mode == "ANY":
            return Verdict(refusals[-1])
        reason = _WAITS_FOR_EVER.get(refusals[0], "AccountNotAllowed")
        return replace(given, partitions=given.partitions[:1], reason=reason)  # that of a job in one alone is final

    def _against(self, name: str, account: str, qos: str) -> str:
        """Return the words with which a partition keeps the job out; empty where it does not, or it is not known."""
        access, user = self._access(name), self.wish.user
        if access.needs_reservation and not self.wish.has_reservation:
            return DENIED
        if not access.root and user == "root":
            return NO_ROOT
        if user not in self.known.masters:
            if not access.others:
                return DENIED
            groups = None if access.groups is None else self.groups(user)
            if access.groups is not None and groups is not None and access.groups.isdisjoint(groups):
                return NOT_IN_GROUP
        if self.known.associations is None:
            return ""
        if not self._takes_account(access, account):
            return INVALID_ACCOUNT
        taken = [self._takes_qos(access, one) for one in self._names(qos)]
        # EnforcePartLimits compares each of several QOS at once (25.11); else one that is taken lets the job start.
        return "" if (any if self.known.part_limits == "NO" else all)(taken) else INVALID_QOS

    def _takes_qos(self, access: PartitionAccess, qos: str) -> bool:
        return (access.qos is None or qos in access.qos) and qos not in access.denied_qos

    def _takes_account(self, access: PartitionAccess, account: str) -> bool:
        if not self.release.accounts_unenforced and _ASSOCIATIONS not in self.known.enforced:
            return True
        line = self._line(account) if self.release.inherits_accounts else frozenset({account})
        return (access.accounts is None or not line.isdisjoint(access.accounts)) and line.isdisjoint(
            access.denied_accounts
        )

    def _line(self, account: str) -> frozenset[str]:
        """Return an account and those above it."""
        line: set[str] = set()
        while account and account not in line:
            line.add(account)
            account = self.known.parents.get(account, "")
        return frozenset(line)

    def _preempts(self, takers: tuple[str, ...], qos: str) -> Iterator[str]:
        """Yield the options for which Slurm may stop running jobs, which the times of the job leave out."""
        what = "whether Slurm stops running jobs for it"
        if self.known.preempts_by == "qos" and not self.known.preempting_qos.isdisjoint(self._names(qos)):
            yield f"--qos={qos} ({what})"
        if self.known.preempts_by == "partition_prio":
            lowest = min((access.tier for access in self.known.partitions.values()), default=1)
            yield from (f"--partition={name} ({what})" for name in takers if self._access(name).tier > lowest)

    def _unsure(self, takers: tuple[str, ...], account: str, qos: str) -> tuple[str, ...]:
        """Return what of the wish is granted or not by something that was not read."""
        wish, known, found = self.wish, self.known, []
        unread = known.associations is None
        if wish.qos is not None and (known.qos is None or unread) and _QOS in known.enforced:
            found.append(f"--qos={wish.qos} (whether the user may use it)")
        if wish.account is not None and unread and _ASSOCIATIONS in known.enforced:
            found.append(f"--account={wish.account} (whether the user may use it)")
        for name in takers:
            access = self._access(name)
            chosen = (access.accounts is not None, access.denied_accounts, access.qos is not None, access.denied_qos)
            if unread and any(chosen):
                found.append(f"--partition={name} (whether it takes the job's account and QOS)")
            if access.groups is not None and wish.user not in known.masters and self.groups(wish.user) is None:
                found.append(f"--partition={name} (whether it takes the user's groups)")
            if not access.from_anywhere:
                found.append(f"--partition={name} (which hosts may submit to it)")
            if len(wish.partitions) > 1 and self._against(name, account, "") in (DENIED, NO_ROOT, NOT_IN_GROUP):
                found.append(f"--partition={name} (it takes no such job, and Slurm may start it in no other)")
        return (*found, *self._preempts(takers, qos))
