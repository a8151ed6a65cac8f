"""Check that the cluster and our rights on it meet the needs of the settings, with a remedy for each failure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields

from ..config import Settings
from ..config.shipped_files import shipped
from .port import (
    RIGHTS,
    ClusterInfo,
    hides_associations,
    holds_to_limits,
    keeps_jobs_private,
    preemption,
    unreadable_selection,
)
from .slots import without_slots
from .versions import ABILITIES, SHOWS_CLOUDS, TESTED, SlurmRelease, Support

_UNSET = ("", "(null)", "none", "NONE")


@dataclass(frozen=True)
class Finding:
    """The result of one check: *ok* is None where the settings do not need it; *remedy* is a line to add or run."""

    name: str
    ok: bool | None
    text: str
    remedy: str = ""


def checkup(facts: ClusterInfo, settings: Settings) -> tuple[Finding, ...]:
    """Run all checks on the cluster, in a fixed order; pure."""
    return tuple(rule(facts, settings) for rule in _RULES)


def _version(facts: ClusterInfo, settings: Settings) -> Finding:
    name, release = "Slurm version", SlurmRelease(facts.version)
    sentence = f"{release} is {release.support.value}"
    if release.support is Support.TOO_OLD:
        return Finding(name, False, f"{sentence}, {SlurmRelease(TESTED[0])}", "update Slurm")
    if release.support is Support.NEWER and not settings.slurm.allow_untested:
        text = f"{sentence}, {SlurmRelease(TESTED[-1])}: it is observed, nothing is written"
        return Finding(name, False if settings.daemon.mode == "act" else None, text, "[slurm] allow_untested = true")
    return Finding(name, True if release.support is Support.TESTED else None, sentence)


def _abilities(facts: ClusterInfo, settings: Settings) -> Finding:
    release = SlurmRelease(facts.version)
    lacks = [f"{each.words} ({SlurmRelease(each.since)})" for name, each in ABILITIES.items() if not release.can(name)]
    return Finding("abilities", True, f"only newer releases have: {', '.join(lacks)}" if lacks else "all we know of")


def _selection(facts: ClusterInfo, settings: Settings) -> Finding:
    name, trouble = "node selection", unreadable_selection(facts.config)
    if trouble:
        return Finding(name, False, trouble.partition(";")[0], "SelectType=select/cons_tres")
    return Finding(name, True, facts.config.get("SelectType") or "not named")


def _federation(facts: ClusterInfo, settings: Settings) -> Finding:
    name = "federation"
    if not facts.federation:
        return Finding(name, True, "this cluster is in none")
    text = f"{facts.federation}: {facts.cluster} alone is read and ordered; a job that may start on another of its"
    return Finding(name, None, f"{text} clusters may start there earlier than is said here")


def _preemption(facts: ClusterInfo, settings: Settings) -> Finding:
    name, kind = "preemption", preemption(facts.config)
    if not kind:
        return Finding(name, True, "Slurm stops no jobs for others")
    text = f"Slurm stops jobs for others by itself (preempt/{kind}), which our times leave out: a job may start earlier"
    return Finding(name, None, f"{text} than is said, and a stopped one ends later")


def _clouds(facts: ClusterInfo, settings: Settings) -> Finding:
    name, shown = "nodes of clouds", _words(facts, "PrivateData")
    if facts.config.get("SuspendProgram", "") in _UNSET:
        return Finding(name, True, "no nodes are switched off to save power")
    if facts.version >= SHOWS_CLOUDS or "cloud" in shown:
        return Finding(name, True, "Slurm shows those that are switched off too")
    text = "Slurm hides those that are switched off: jobs for them get no times, and promises leave them out"
    return Finding(name, None, text, f"PrivateData={','.join([*shown, 'cloud'])}")


def _backend(facts: ClusterInfo, settings: Settings) -> Finding:
    return Finding("backend", True, ": ".join(filter(None, (facts.backend, facts.backend_reason))))


def _powers(facts: ClusterInfo, settings: Settings) -> Finding:
    on = powers(settings)
    listed = ", ".join(on) or "none"
    if settings.daemon.mode != "act":
        return Finding("powers", None, f"mode is {settings.daemon.mode}: nothing is written; switched on: {listed}")
    if not on:
        return Finding("powers", False, "mode is act but no power is on", "[power] order = true, in slurmsched.toml")
    return Finding("powers", True, f"mode is act; switched on: {listed}")


def _rights(facts: ClusterInfo, settings: Settings) -> Finding:
    have = f"{facts.user} has {facts.admin_level} rights"
    if facts.admin_level in RIGHTS:
        return Finding("rights", True, have)
    private = keeps_jobs_private(facts.config)
    needed = private or (settings.daemon.mode == "act" and bool(powers(settings)))
    text = f"{have}; to {'see and ' if private else ''}write to other users' jobs it takes Operator"
    if facts.admin_level == "unknown":
        return Finding(
            "rights", None, f"slurmdbd did not say which rights {facts.user} has", "check again when it answers"
        )
    if facts.accounting:
        user = f"sacctmgr add user {facts.user} account=root adminlevel=Operator"
        remedy = f"if it exists: sacctmgr modify user {facts.user} set adminlevel=Operator"
        return Finding("rights", False if needed else None, text, f"{user} ({remedy})")
    text += ", which only slurmdbd can grant"
    return Finding("rights", False if needed else None, text, "run slurmsched as SlurmUser, or set up slurmdbd")


def _limits(facts: ClusterInfo, settings: Settings) -> Finding:
    name, ours = "limits of jobs", [power for power in ("steer", "rightsize", "resize") if power in powers(settings)]
    if not ours or not holds_to_limits(facts.config):
        return Finding(name, None if ours else True, "Slurm holds no job to limits" if ours else "no power needs them")
    needs = f"{', '.join(ours)} keep the limits of QOS and associations"
    if facts.admin_level == "unknown":
        text = f"{needs}, and slurmdbd does not answer: nothing is done by these powers"
        return Finding(name, False, text, "check again when it answers")
    if hides_associations(facts.config) and facts.admin_level not in RIGHTS:
        text = f"{needs}, which PrivateData=users hides from {facts.user}: nothing is done by these powers"
        return Finding(name, False, text, f"sacctmgr modify user {facts.user} set adminlevel=Operator")
    return Finding(name, True, f"{needs}, read at most once a minute; where slurmdbd does not answer they do nothing")


def _least_privilege(facts: ClusterInfo, settings: Settings) -> Finding:
    name, mighty = "least privilege", facts.user == "root" or facts.admin_level in ("Administrator", "SlurmUser")
    if not mighty:
        return Finding(name, True, f"{facts.user} can do no more than it needs")
    text = f"we run as {facts.user} with {facts.admin_level} rights; Operator is enough for all we do"
    if not facts.accounting:
        return Finding(name, None, f"we run as {facts.user}: without slurmdbd there is no lesser right that can write")
    if needs := [f"power.{power}" for power in ("nodes", "comment") if power in powers(settings)]:
        return Finding(name, None, f"we run as {facts.user} with {facts.admin_level} rights for {' and '.join(needs)}")
    return Finding(
        name, False, text, "run as a user of its own: sacctmgr add user slurmsched account=root adminlevel=Operator"
    )


def _admin_comment(facts: ClusterInfo, settings: Settings) -> Finding:
    name = "answers in AdminComment"
    if not settings.power.comment:
        return Finding(name, True, "power.comment is off: they are not written there")
    if facts.admin_level == "SlurmUser":
        return Finding(name, True, f"{facts.user} may write them")
    text = f"only SlurmUser and root may write AdminComment; {facts.user} has {facts.admin_level} rights"
    return Finding(name, False, text, "[power] comment = false, or run slurmsched as SlurmUser")


def _yields(facts: ClusterInfo, settings: Settings) -> Finding:
    name = "room for promises"
    if not settings.deadline.yields:
        return Finding(name, True, "deadline.yields is off: no running job is asked to stop")
    if not (settings.deadline.enabled and settings.power.requeue):
        return Finding(name, False, "deadline.yields needs both", "[deadline] enabled = true, [power] requeue = true")
    return Finding(name, True, f"jobs with the token slurmsched:ckpt receive SIG{settings.deadline.stop_signal}")


def _priority(facts: ClusterInfo, settings: Settings) -> Finding:
    kind = facts.config.get("PriorityType", "unknown")
    if facts.multifactor:
        return Finding("priority plugin", True, kind)
    text = f"{kind} has no SiteFactor: we could only fix a job's Priority, which silences its age, fair share and QOS"
    return Finding(
        "priority plugin", False if settings.power.order else None, text, "PriorityType=priority/multifactor"
    )


def _site_factor(facts: ClusterInfo, settings: Settings) -> Finding:
    plugin = facts.config.get("PrioritySiteFactorPlugin", "")
    if plugin in _UNSET:
        return Finding("site factor", True, "no plugin sets it; it is ours")
    text = f"{plugin} sets the SiteFactor of every job, over what we write"
    remedy = f"remove the line PrioritySiteFactorPlugin={plugin}"
    return Finding("site factor", False if settings.power.order else None, text, remedy)


def _accounting(facts: ClusterInfo, settings: Settings) -> Finding:
    kind = facts.config.get("AccountingStorageType", "none")
    if facts.accounting:
        return Finding("accounting", True, kind)
    text = f"{kind}: no QOS, no operators, and history only from what the daemon sees itself"
    return Finding("accounting", None, text, "AccountingStorageType=accounting_storage/slurmdbd")


def _job_comment(facts: ClusterInfo, settings: Settings) -> Finding:
    flags = _words(facts, "AccountingStoreFlags")
    if "job_comment" in flags:
        return Finding("comments in sacct", True, "AccountingStoreFlags has job_comment")
    line = "AccountingStoreFlags=" + ",".join([*flags, "job_comment"])
    text = "sacct will not have the comments of jobs"
    return Finding("comments in sacct", False if facts.accounting else None, text, line)


def counts_gpus(facts: ClusterInfo) -> bool | None:
    """Return True if accounting counts the GPUs of jobs; None where Slurm hands out none."""
    if "gpu" not in _words(facts, "GresTypes"):
        return None
    return "gres/gpu" in _words(facts, "AccountingStorageTRES")


def _gpu_tres(facts: ClusterInfo, settings: Settings) -> Finding:
    name = "GPUs in sacct"
    if counts_gpus(facts) is None:
        return Finding(
            name, None, "GresTypes has no gpu: this cluster has no GPUs that Slurm hands out", "GresTypes=gpu"
        )
    tracked = _words(facts, "AccountingStorageTRES")
    if counts_gpus(facts):
        return Finding(name, True, "AccountingStorageTRES has gres/gpu")
    basic = {"cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages"}  # always there, never written
    line = "AccountingStorageTRES=" + ",".join([*(word for word in tracked if word not in basic), "gres/gpu"])
    text = "accounting does not count GPUs: in history all jobs have 0"
    return Finding(name, False if facts.accounting else None, text, line)


def _job_age(facts: ClusterInfo, settings: Settings) -> Finding:
    words = facts.config.get("MinJobAge", "").split()
    age_s = int(words[0]) if words and words[0].isdigit() else 0
    needed_s = 4 * settings.daemon.every_s
    if age_s >= needed_s:
        return Finding("memory of ended jobs", True, f"slurmctld keeps them for {age_s} s")
    text = f"slurmctld forgets an ended job after {age_s} s; cycles are {settings.daemon.every_s:g} s apart"
    remedy = f"MinJobAge={max(300, round(needed_s))}"
    return Finding("memory of ended jobs", None if facts.accounting else False, text, remedy)


def _requeue(facts: ClusterInfo, settings: Settings) -> Finding:
    if facts.config.get("JobRequeue", "1") == "0":
        text = "JobRequeue=0: only jobs submitted with --requeue can be requeued"
        return Finding("requeue", False if "requeue" in powers(settings) else None, text, "JobRequeue=1")
    delay_s = SlurmRelease(facts.version).requeue_delay_s(facts.config)
    return Finding("requeue", True, f"jobs may be requeued; Slurm alone would start them again after {delay_s:g} s")


def _submit_plugin(facts: ClusterInfo, settings: Settings) -> Finding:
    if "lua" in _words(facts, "JobSubmitPlugins"):
        return Finding("submit plugin", True, "JobSubmitPlugins has lua")
    text = "malformed slurmsched: tokens are not refused at submission; only `why` reports them"
    line = "JobSubmitPlugins=" + ",".join([*_words(facts, "JobSubmitPlugins"), "lua"])
    return Finding("submit plugin", None, text, f"{line}, with {shipped('contrib/slurm.conf.d/job_submit.lua')}")


def _profiles(facts: ClusterInfo, settings: Settings) -> Finding:
    name, listen = "profiles", settings.profile.listen
    if not listen and settings.profile.token_user and settings.remote.listen:
        listen = f"{settings.remote.listen} with tokens of {settings.profile.token_user}"
    if not listen:
        text = "profile.listen is empty: nodes deliver no profiles"
        if not (settings.power.share or settings.power.profile):
            return Finding(name, True, text)
        return Finding(name, False, f"{text}, so that no job is ever known", '[profile] listen = "10.0.0.1:9818"')
    lacks = [hook for hook in ("Prolog", "Epilog") if not _hooked(facts, hook)]
    if lacks:
        text = f"slurm.conf has no {' and no '.join(lacks)}: nodes measure nothing"
        return Finding(name, False, text, f"the lines of {shipped('contrib/slurm.conf.d/profiling.conf')}")
    flags = _words(facts, "PrologFlags")
    if not {"alloc", "contain", "x11"} & {flag.lower() for flag in flags}:
        text = "PrologFlags has neither Alloc nor Contain: nodes are measured only from their first step on"
        return Finding(name, None, text, "PrologFlags=" + ",".join([*flags, "Alloc"]))
    return Finding(name, True, f"nodes deliver what they measure to {listen}, if their COLLECTOR says so")


def _hooked(facts: ClusterInfo, hook: str) -> bool:
    """Return True if slurmd runs any program for *hook*; newer releases number the programs."""
    pattern = re.compile(rf"{hook}(\[\d+\])?")
    return any(pattern.fullmatch(key) and value not in _UNSET for key, value in facts.config.items())


def _profiling(facts: ClusterInfo, settings: Settings) -> Finding:
    name, on = "profiling partition", powers(settings)
    if "profile" not in on:
        return Finding(name, True, "power.profile is off: jobs are measured where they run")
    if facts.config.get("EnforcePartLimits", "NO") in ("ALL", "YES"):
        text = "EnforcePartLimits=ALL refuses a job that does not fit into every partition it may start in"
        return Finding(name, False, text, "EnforcePartLimits=ANY")
    lacks = [power for power in ("partition", "requeue") if power not in on]
    where = settings.profile.partition
    if lacks:
        lost = {"partition": "no job leaves its queue again", "requeue": "no job there makes room for others"}
        text = f"{where}: without power.{' and power.'.join(lacks)} {' and '.join(lost[power] for power in lacks)}"
        return Finding(name, None, text, f"[power] {lacks[0]} = true, in slurmsched.toml")
    return Finding(name, True, f"new jobs may start in {where}, if PROFILE_PARTITION in job_submit.lua says so")


def _nodes(facts: ClusterInfo, settings: Settings) -> Finding:
    name = "nodes of partitions"
    if "nodes" not in powers(settings):
        return Finding(name, True, "power.nodes is off: partitions keep the nodes they have")
    if not (settings.power.profile and settings.profile.home):
        return Finding(name, False, "power.nodes needs power.profile and profile.home", '[profile] home = "gpu"')
    if facts.admin_level == "SlurmUser":
        return Finding(name, True, f"{settings.profile.partition} and {settings.profile.home} lend each other nodes")
    text = f"{facts.user} has {facts.admin_level} rights; only SlurmUser and root change the nodes of a partition"
    owner = facts.config.get("SlurmUser", "").partition("(")[0] or "SlurmUser"
    return Finding(name, False, text, f"[power] nodes = false; or run slurmsched as {owner}")


def _steering(facts: ClusterInfo, settings: Settings) -> Finding:
    name = "types of GPUs"
    if not settings.power.steer:
        return Finding(name, True, "power.steer is off: Slurm gives untyped jobs any type")
    if "gpu" not in _words(facts, "GresTypes"):
        return Finding(name, False, "GresTypes has no gpu: there are no GPUs to send jobs to", "GresTypes=gpu")
    if "lua" not in _words(facts, "JobSubmitPlugins"):
        text = "without job_submit.lua only jobs that have to wait are sent to a type of GPU"
        return Finding(name, None, text, f"{shipped('contrib/slurm.conf.d/job_submit.lua')}, with STEER_DELAY_S = 20")
    return Finding(
        name, True, "untyped jobs are sent to a type, new ones too if STEER_DELAY_S in job_submit.lua says so"
    )


def _line(facts: ClusterInfo, settings: Settings) -> Finding:
    name, remedy = "bound on the load", f"LINE_AHEAD_S = {3 * settings.daemon.every_s:g} in job_submit.lua"
    if not (settings.power.hold and settings.policy.admission.startswith("load")):
        return Finding(name, True, "no job waits outside: policy.admission or power.hold is off")
    if "lua" in _words(facts, "JobSubmitPlugins"):
        return Finding(name, True, f"users cannot take back the begin times that hold jobs outside, with {remedy}")
    text = "without job_submit.lua users can take back the begin times that hold their jobs outside"
    return Finding(name, None, text, f"{shipped('contrib/slurm.conf.d/job_submit.lua')}, with {remedy}")


def _migration(facts: ClusterInfo, settings: Settings) -> Finding:
    name = "overloaded nodes"
    if not settings.power.migrate:
        return Finding(name, True, "power.migrate is off: jobs stay on overloaded nodes")
    if not settings.power.requeue:
        return Finding(name, False, "power.migrate needs power.requeue", "[power] requeue = true")
    signal = f"jobs with the token slurmsched:ckpt receive SIG{settings.deadline.stop_signal} to leave them"
    if facts.config.get("SlurmdTimeout", "").startswith("0"):
        return Finding(
            name, None, f"{signal}; SlurmdTimeout=0: slurmctld hardly asks nodes for their load", "SlurmdTimeout=300"
        )
    return Finding(name, True, signal)


def _rightsizing(facts: ClusterInfo, settings: Settings) -> Finding:
    name, section = "CPUs and memory", settings.rightsize
    if not settings.power.rightsize:
        return Finding(name, True, "power.rightsize is off: jobs have the CPUs and memory that they ask for")
    if facts.config.get("SelectType", "") not in ("select/cons_tres", "select/cons_res"):
        text = f"SelectType is {facts.config.get('SelectType', '')}: jobs have whole nodes, whatever they ask for"
        return Finding(name, False, text, "SelectType=select/cons_tres")
    if holds_to_limits(facts.config) and not section.despite_limits:
        text = "Slurm has limits, and would not hold jobs to those of CPUs and memory any more: none is sized"
        return Finding(name, False, text, "[rightsize] despite_limits = true, where no limit is of CPUs or memory")
    if section.accounts and not facts.accounting:
        text = "without slurmdbd nobody knows what jobs used: only those with slurmsched:cpus= or mem= are sized"
        return Finding(name, False, text, "AccountingStorageType=accounting_storage/slurmdbd")
    if section.accounts and facts.config.get("JobAcctGatherType", "").endswith("none"):
        text = "Slurm does not measure what jobs use: only those with slurmsched:cpus= or mem= are sized"
        return Finding(name, False, text, "JobAcctGatherType=jobacct_gather/cgroup")
    if "Memory" not in facts.config.get("SelectTypeParameters", ""):
        text = "SelectTypeParameters has no Memory: Slurm counts CPUs alone, and less memory helps nobody"
        return Finding(name, None, text, "SelectTypeParameters=CR_Core_Memory")
    whose = f" and those of {', '.join(section.accounts)}" if section.accounts else ""
    return Finding(name, True, f"waiting jobs with slurmsched:cpus= or mem={whose} ask for what they need")


def _sizes(facts: ClusterInfo, settings: Settings) -> Finding:
    name = "numbers of GPUs"
    if not settings.power.resize:
        return Finding(name, True, "power.resize is off: every job has the GPUs that it asks for")
    if "gpu" not in _words(facts, "GresTypes"):
        return Finding(name, False, "GresTypes has no gpu: there are no GPUs to divide", "GresTypes=gpu")
    if settings.resize.nodes and holds_to_limits(facts.config):
        text = "Slurm no longer holds jobs to limits of CPUs once their number of nodes was changed"
        return Finding(name, None, text, "[resize] nodes = false, where there are such limits")
    if not settings.power.requeue:
        text = "without power.requeue only pending jobs get another number of GPUs; no running job is stopped for one"
        return Finding(name, None, text, "[power] requeue = true")
    return Finding(name, True, "jobs with gpus=A-B and ckpt get the number of GPUs with which jobs end soonest")


def _sharing(facts: ClusterInfo, settings: Settings) -> Finding:
    name, section = "shared GPUs", settings.share
    if not settings.power.share:
        return Finding(name, True, "power.share is off: every job has its GPUs alone")
    if "slot" not in _words(facts, "GresTypes"):
        text = "GresTypes has no slot: no node has GPUs that jobs can share"
        return Finding(name, False, text, f"the lines of {shipped('contrib/slurm.conf.d/sharing.conf')}")
    if not section.memory_mib:
        text = "share.memory_mib is 0: no two jobs fit on a GPU"
        return Finding(name, False, text, "[share] memory_mib = 76000, for GPUs with 80 GB")
    nodes, types = without_slots(facts.gres)
    if nodes:
        ones = ",".join(f"slot:{each}:1" for each in types)
        counted = f"NodeName={nodes} Name=slot Type={{{','.join(types)}}} Count=1 Flags=CountOnly"
        text = f"{nodes}: not one slot of each type; a job that gets its GPUs back may never start there"
        remedy = f"{ones} to the Gres of {nodes} in slurm.conf; in gres.conf a line for each type, {counted}"
        return Finding(name, False, text, remedy)
    whose = f" of {', '.join(section.accounts)}" if section.accounts else ""
    whose += " with slurmsched:pack" if section.optin else ""
    return Finding(name, True, f"jobs{whose} that were measured share GPUs in partition {section.partition}")


_RULES: tuple[Callable[[ClusterInfo, Settings], Finding], ...] = (
    _version,
    _abilities,
    _selection,
    _federation,
    _preemption,
    _clouds,
    _backend,
    _powers,
    _rights,
    _limits,
    _least_privilege,
    _admin_comment,
    _yields,
    _priority,
    _site_factor,
    _accounting,
    _job_comment,
    _gpu_tres,
    _job_age,
    _requeue,
    _submit_plugin,
    _profiles,
    _profiling,
    _nodes,
    _steering,
    _line,
    _migration,
    _rightsizing,
    _sizes,
    _sharing,
)


def powers(settings: Settings) -> tuple[str, ...]:
    """Return the names of the powers that are switched on, in any mode."""
    return tuple(each.name for each in fields(settings.power) if getattr(settings.power, each.name))


def _words(facts: ClusterInfo, key: str) -> list[str]:
    value = facts.config.get(key, "")
    return [] if value in _UNSET else [word.strip() for word in value.split(",") if word.strip()]
