"""Slurm's configuration files, as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from slurmsched.lab.layout import Layout
from slurmsched.lab.spec import LabSpec

#: lines of these kinds have a value per name, so another name adds rather than replaces
NAMED = frozenset({"nodename", "partitionname", "nodeset", "downnodes", "frontendname", "slurmctldhost"})


def slurm_conf(
    layout: Layout, spec: LabSpec, cluster: str, ports: Mapping[str, int], user: str, host: str, *, closed: bool
) -> str:
    """Return slurm.conf of the lab; *user* runs every daemon.

    *closed* states that *host* resolves to 127.0.0.1: only then can the daemons listen on loopback alone.
    """
    lines = [*_controller(layout, cluster, ports, user, host), *_scheduling(), *_storage(layout, spec, ports)]
    if closed:
        lines.append("CommunicationParameters=NoInAddrAny,NoCtldInAddrAny")
    if spec.job_submit_lua:
        lines.append("JobSubmitPlugins=lua")
    if spec.gpus:
        lines.append("GresTypes=gpu,slot" if spec.shared_nodes else "GresTypes=gpu")
    lines += _nodes(spec, ports, host)
    return "\n".join(overridden(lines, spec.extra_conf)) + "\n"


def _controller(layout: Layout, cluster: str, ports: Mapping[str, int], user: str, host: str) -> list[str]:
    return [
        f"ClusterName={cluster}",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports['slurmctld']}",
        f"SlurmUser={user}",
        f"SlurmdUser={user}",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"AuthInfo=socket={layout.munge_socket}",
        f"SlurmctldPidFile={layout.run}/slurmctld.pid",
        f"SlurmdPidFile={layout.run}/slurmd.%n.pid",
        f"StateSaveLocation={layout.state}",
        f"SlurmdSpoolDir={layout.spool}/%n",
        f"SlurmctldLogFile={layout.log('slurmctld')}",
        f"SlurmdLogFile={layout.logs}/slurmd.%n.log",
        f"PlugStackConfig={layout.etc}/plugstack.conf",
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        "TreeWidth=1024",
        "MpiDefault=none",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MailProg=/bin/true",
    ]


def _scheduling() -> list[str]:
    return [
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "SchedulerType=sched/backfill",
        # By default a batch job waits up to 3 s for others to be scheduled with.
        "SchedulerParameters=bf_interval=10,bf_continue,sched_interval=10,batch_sched_delay=0",
        "PriorityType=priority/multifactor",
        "PriorityMaxAge=1-0",
        "PriorityCalcPeriod=1",
        "JobRequeue=1",
        "KillWait=5",
        "MinJobAge=300",
        "MaxJobCount=50000",
        "MaxArraySize=20001",
        # Linux accounting polls every process of every job; a lab's jobs use nothing worth polling.
        "JobAcctGatherType=jobacct_gather/none",
    ]


def _storage(layout: Layout, spec: LabSpec, ports: Mapping[str, int]) -> list[str]:
    if not spec.accounting:
        return ["AccountingStorageType=accounting_storage/none"]
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={ports['slurmdbd']}",
        # For connections to slurmdbd this, not AuthInfo, names munged's socket.
        f"AccountingStoragePass=socket={layout.munge_socket}",
        "AccountingStoreFlags=job_comment",
        # Slurm rejects these two without slurmdbd.
        "PriorityWeightAge=1000",
        "PriorityWeightQOS=1000",
        *(["AccountingStorageTRES=gres/gpu"] if spec.gpus else []),
    ]


def _nodes(spec: LabSpec, ports: Mapping[str, int], host: str) -> list[str]:
    plain, shared = _names(spec)
    gres = f"gpu:{spec.gpus}" * bool(spec.gpus)
    slots = ",".join(f"slot:i{gpu}:2" for gpu in range(spec.gpus))
    ones = "".join(f",slot:i{gpu}:1" for gpu in range(spec.gpus)) if shared else ""
    lines = [
        f"DefMemPerCPU={max(1, spec.memory_mib // spec.cpus)}",
        *_whole_nodes(spec, ports["slurmd"], host, ones),
        f"PartitionName=gpu Nodes={plain} Default=YES MaxTime=INFINITE DefaultTime=60 State=UP",
    ]
    if shared:
        first = ports["slurmd"] + spec.nodes - spec.shared_nodes
        lines += [
            _node(spec, shared, first, spec.shared_nodes, host, f"{gres},{slots}"),
            f"PartitionName=shared Nodes={shared} MaxTime=INFINITE DefaultTime=60 State=UP",
        ]
    return lines


def _whole_nodes(spec: LabSpec, port: int, host: str, ones: str) -> Iterable[str]:
    """Yield the lines of the nodes with whole GPUs, one for each type of GPU or each node with a shape of its own."""
    for at, shape in enumerate(spec.shapes):
        where = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={port + at}"
        yield f"NodeName=n{at + 1} {where} {shape} State=UNKNOWN"
    if spec.shapes:
        return
    cpus = spec.type_cpus or (spec.cpus,) * len(spec.parts)
    for (kind, first, count), each in zip(spec.parts, cpus, strict=True):
        gres = f"gpu:{kind}{':' * bool(kind)}{spec.gpus}" * bool(spec.gpus)
        names = f"n[{first}-{first + count - 1}]"
        yield _node(replace(spec, cpus=each, type_cpus=()), names, port + first - 1, count, host, gres + ones)


def _names(spec: LabSpec) -> tuple[str, str]:
    """Return the host lists of the nodes with whole GPUs and of those with slots; the latter may be empty."""
    last = spec.nodes - spec.shared_nodes
    return f"n[1-{last}]", f"n[{last + 1}-{spec.nodes}]" * bool(spec.shared_nodes)


def _node(spec: LabSpec, names: str, first: int, count: int, host: str, gres: str) -> str:
    return (
        f"NodeName={names} NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{first + count - 1}]"
        f" CPUs={spec.cpus} RealMemory={spec.memory_mib}{' Gres=' * bool(gres)}{gres} State=UNKNOWN"
    )


def overridden(lines: Iterable[str], extra: Iterable[str]) -> list[str]:
    """Return *lines* then *extra*; of two that set the same parameter only the later one."""
    last: dict[str, str] = {}
    for line in (*lines, *extra):
        subject = _subject(line)
        last.pop(subject, None)
        last[subject] = line
    return list(last.values())


def _subject(line: str) -> str:
    """Return the subject of a slurm.conf line: its key, with the name for keys with a value per name."""
    match = re.match(r"\s*(\w+)\s*=\s*(\S*)", line)
    if match is None:
        return line
    key = match[1].lower()
    return f"{key}={match[2]}" if key in NAMED else key


def gres_conf(layout: Layout, spec: LabSpec) -> str:
    """Return gres.conf: every node of the lab shares the same fake devices."""
    if not spec.gpus:
        return "AutoDetect=off\n"
    if spec.shapes:
        return "\n".join(["AutoDetect=off", *_devices_of_shapes(layout, spec.shapes)]) + "\n"
    plain, shared = _names(spec)
    devices = f"File={layout.devices}/gpu[0-{spec.gpus - 1}]"
    lines = ["AutoDetect=off"]
    for kind, first, many in spec.parts:
        last = spec.nodes if not spec.gpu_types else first + many - 1
        lines.append(f"NodeName=n[{first}-{last}] Name=gpu{f' Type={kind}' * bool(kind)} {devices}")
    if shared:  # two slots are two files, which newer releases want to have two names
        lines += [
            f"NodeName={shared} Name=slot Type=i{gpu} File={layout.devices}/{name}{gpu}"
            for gpu in range(spec.gpus)
            for name in ("gpu", "slot")
        ]
        # A job that gets whole GPUs back still requests zero slots; Slurm requires one where it starts.
        lines += [f"NodeName={plain} Name=slot Type=i{gpu} Count=1 Flags=CountOnly" for gpu in range(spec.gpus)]
    return "\n".join(lines) + "\n"


def _devices_of_shapes(layout: Layout, shapes: Iterable[str]) -> Iterable[str]:
    """Yield the lines of gres.conf for each shape: the first devices for the first type of GPU, others by number."""
    for number, shape in enumerate(shapes, start=1):
        first = 0
        for item in ",".join(re.findall(r"\bGres=(\S+)", shape)).split(","):
            name, *kind, many = item.split(":") if item else ("", "0")
            of = f" Type={kind[0]}" if kind else ""
            if name == "gpu":
                devices = f"{layout.devices}/gpu[{first}-{first + int(many) - 1}]"
                yield f"NodeName=n{number} Name=gpu{of} File={devices}"
                first += int(many)
            elif name:
                yield f"NodeName=n{number} Name={name}{of} Count={many} Flags=CountOnly"


def cgroup_conf(release: tuple[int, ...]) -> str:
    """Return cgroup.conf that keeps Slurm out of the host's control groups.

    Before 23.11 there is no such setting; cgroup v1 is then used only by plugins that a lab does not load.
    """
    return f"CgroupPlugin={'disabled' if release >= (23, 11) else 'cgroup/v1'}\n"


def slurmdbd_conf(layout: Layout, ports: Mapping[str, int], user: str, password: str) -> str:
    """Return slurmdbd.conf; it holds the database password, so the caller must restrict access to it."""
    return f"""AuthType=auth/munge
AuthInfo=socket={layout.munge_socket}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports["slurmdbd"]}
SlurmUser={user}
PidFile={layout.run}/slurmdbd.pid
LogFile={layout.log("slurmdbd")}
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports["mariadb"]}
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm_acct_db
"""
