"""Accounts, users and QOS of a lab, as input to slurmdbd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmsched.lab.spec import LabSpec


def qos_commands(spec: LabSpec) -> Iterator[list[str]]:
    """Yield a sacctmgr command for each QOS; slurmdbd has ``normal`` from the start."""
    for name, priority in spec.qos.items():
        verb = ["modify", "qos", name, "set"] if name == "normal" else ["add", "qos", name]
        yield [*verb, f"priority={priority}"]


def cluster_file(spec: LabSpec, cluster: str, users: Mapping[str, str]) -> str:
    """Return all other objects in the format of ``sacctmgr load``: one call costs what two single additions would.

    The QOS are set on the cluster, so every account and user inherits them; *users* has the unix names.
    """
    allowed = ",".join(dict.fromkeys(["normal", *spec.qos]))
    lines = [f"Cluster - {cluster}:QOS={allowed}:DefaultQOS=normal", "Parent - root"]
    lines += [f"Account - {account}" for account in spec.accounts]
    for account in spec.accounts:
        lines.append(f"Parent - {account}")
        lines += [f"User - {users[name]}:DefaultAccount={account}" for name, of in spec.users.items() if of == account]
        if account == spec.accounts[0]:
            lines += [f"User - {users[name]}:DefaultAccount={account}:AdminLevel=Operator" for name in spec.operators]
    return "\n".join(lines) + "\n"
