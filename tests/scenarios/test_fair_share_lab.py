"""Fair share as slurmctld computes it, by sshare(1): drawn shares, and the usage of real jobs, on a lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lab_site import Site

from slurmsched.cluster.records.associations import NO_ASSOCIATIONS, AssociationTable
from slurmsched.lab import Lab
from slurmsched.lab.waiting import wait_until
from slurmsched.simulator.slurmctld.fair_share import add, share_out
from slurmsched.simulator.slurmctld.shared_accounts import SharedAccounts
from slurmsched.simulator.workload.workload import workload

FEATURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], phases=[Phase.generate])
ABOVE = {"alpha": "root", "zeta": "root", "sub1": "zeta", "sub2": "zeta", "idle": "root"}
MEMBERS = {"alpha": ("alice", "carol"), "sub1": ("alice", "bob"), "sub2": ("bob", "carol"), "zeta": ("dave",)}
PLACES = [*ABOVE, *((account, user) for account, users in MEMBERS.items() for user in users)]
RUNS = (("alice", "alpha", 1), ("bob", "sub1", 2), ("carol", "sub2", 3), ("dave", "zeta", 1), ("carol", "alpha", 2))
SHARES = st.sampled_from(["1", "1", "2", "5", "0", "parent"])
SHOWN = "account,user,rawshares,effectvusage,fairshare,levelfs"


@pytest.fixture
def accounts_lab(lab: Lab, tmp_path: Path) -> Iterator[Lab]:
    """The lab with accounts in accounts, which are gone afterwards."""
    yield lab
    lab.cancel_all()
    lab.ask(["sacctmgr", "-iQ", "delete", "account", *ABOVE])


def set_shares(lab: Lab, path: Path, shares: dict[object, str]) -> None:
    """Let accounts and users have these shares."""
    lines = [f"Cluster - {lab.cluster}"]
    for parent in ("root", *ABOVE):
        lines.append(f"Parent - {parent}")
        lines += [f"Account - {name}:Fairshare={shares[name]}" for name, above in ABOVE.items() if above == parent]
        users = ((user, shares[parent, user]) for user in MEMBERS.get(parent, ()))
        lines += [f"User - {lab.user(user)}:Fairshare={own}" for user, own in users]
    path.write_text("\n".join(lines) + "\n")
    lab.ask(["sacctmgr", "-iQ", "load", str(path)])


def use_some(lab: Lab, runs: list[tuple[str, str, int]]) -> None:
    """Let jobs run while slurmctld starts again, which computes usage and fair share at once."""
    for user, account, cpus in runs:
        options = (f"-A{account}", f"-c{cpus}", "--mem=1", "-t5", "-o/dev/null", "--wrap=sleep 60")
        lab.submit(*options, user=user)
    old = lambda: all(text >= "0:02" for text in lab.ask(["squeue", "-h", "-o%M"]).split())  # noqa: E731
    wait_until(old, 60.0, "jobs that run for two seconds")
    lab.restart_controller()


@settings(FEATURES, max_examples=2 if settings().derandomize else 40)
@given(
    shares=st.fixed_dictionaries(dict.fromkeys(PLACES, SHARES)),
    runs=st.lists(st.sampled_from(RUNS), min_size=2, max_size=5, unique=True),
)
def test_levels_and_factors_of_drawn_shares_are_those_of_sshare(accounts_lab, tmp_path, shares, runs):
    lab = accounts_lab
    set_shares(lab, tmp_path / "accounts", shares)
    use_some(lab, runs)
    associations = Site.of(lab).cluster().associations()
    lines = lab.ask(["sshare", "-a", "-l", "-P", "-h", "-o", SHOWN]).splitlines()
    lab.cancel_all()
    shown = [line.split("|") for line in lines if line]
    assert len(shown) == len(associations)
    compare(associations, [[account.strip(), *rest] for account, *rest in shown])


def compare(associations: AssociationTable, shown: list[list[str]]) -> None:
    """Let each user have used its part of what the account has, and hold what follows beside what sshare shows."""
    users = [(account, user) for account, user, *_ in shown if user]
    jobs = workload(len(users), user=[user for _, user in users], account=[account for account, _ in users])
    accounts = SharedAccounts.of(jobs, associations)
    usage = accounts.usage(jobs)
    shares, row_of = usage.shares, dict(zip(users, usage.of_job.tolist(), strict=True))
    row_of |= {
        (account, ""): accounts.accounts[account] for account, user, raw, *_ in shown if not user and raw != "parent"
    }
    part = {row_of[account, user]: float(of or 0) for account, user, _, of, *_ in shown if (account, user) in row_of}

    def whole(row: int) -> float:
        return 1e6 if row == 0 else whole(int(shares.parent[row])) * part[row]

    for user in users:
        add(shares, row_of[user], whole(row_of[user]))
    share_out(shares, True, 1.0)
    for account, user, _, _, factor, level in shown:
        if factor:
            assert shares.fair[row_of[account, user]] == pytest.approx(float(factor), abs=2e-6), (account, user)
        if level:
            row = row_of[account, user]
            printed = 1e-4 + 1e-6 / max(part.get(row, 1.0), 1e-6)  # the part has six digits behind the point
            assert shares.level[row] == pytest.approx(float(level), rel=printed, abs=1e-5), (account, user)


def test_without_accounting_no_associations_are_known(plain_lab):
    assert Site.of(plain_lab).cluster().associations() is NO_ASSOCIATIONS
