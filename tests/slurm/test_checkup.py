from __future__ import annotations

from dataclasses import replace

import pytest

from slurmsched.config import (
    DaemonSettings,
    PowerSettings,
    ProfileSettings,
    ResizeSettings,
    RightsizeSettings,
    Settings,
    ShareSettings,
    SlurmSettings,
)
from slurmsched.slurm.checkup import Finding, checkup
from slurmsched.slurm.port import ClusterInfo

GOOD = {
    "PriorityType": "priority/multifactor",
    "PrioritySiteFactorPlugin": "(null)",
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStoreFlags": "job_comment",
    "AccountingStorageTRES": "cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu",
    "GresTypes": "gpu",
    "MinJobAge": "300 sec",
    "JobRequeue": "1",
    "JobSubmitPlugins": "lua",
}
FACTS = ClusterInfo("lab", (22, 5, 8), GOOD, user="slurmsched", admin_level="Operator")
ACT = Settings(daemon=DaemonSettings(mode="act"), power=PowerSettings(order=True, requeue=True))


def facts(version=(22, 5, 8), user="slurmsched", admin_level="Operator", **config: str) -> ClusterInfo:
    return replace(FACTS, version=version, user=user, admin_level=admin_level, config=GOOD | config)


def finding(name: str, facts: ClusterInfo, settings: Settings = ACT) -> Finding:
    return {found.name: found for found in checkup(facts, settings)}[name]


def test_a_well_kept_cluster_lacks_nothing():
    assert [found.name for found in checkup(FACTS, ACT) if found.ok is not True] == []


def test_whatever_is_missing_comes_with_its_remedy():
    poor = ClusterInfo("poor", (20, 11, 8), {"GresTypes": "gpu", "JobRequeue": "0"}, user="nobody")
    found = [found for found in checkup(poor, ACT) if found.ok is False]
    assert len(found) >= 5
    assert all(each.remedy and each.text for each in found)


MEASURING = {"Prolog": "/usr/lib/slurmsched/prolog", "Epilog": "/usr/lib/slurmsched/epilog", "PrologFlags": "Contain"}
NUMBERED = {"Prolog[0]": "/site/prolog", "Epilog[0]": "/site/epilog", "PrologFlags": "Alloc,Contain"}


@pytest.mark.parametrize(
    ("hooks", "ok", "words"),
    [
        (MEASURING, True, "deliver what they measure to 10.0.0.1:9818"),
        (NUMBERED, True, "deliver what they measure"),
        (MEASURING | {"Prolog": "(null)"}, False, "no Prolog: "),
        ({"PrologSlurmctld": "/x", "PrologFlags": "Alloc"}, False, "no Prolog and no Epilog"),
        (MEASURING | {"PrologFlags": "NoHold"}, None, "neither Alloc nor Contain"),
    ],
)
def test_where_profiles_are_wanted_nodes_have_to_measure(hooks, ok, words):
    found = finding("profiles", facts(**hooks), replace(ACT, profile=ProfileSettings(listen="10.0.0.1:9818")))
    assert found.ok is ok
    assert words in found.text
    assert ok or found.remedy


@pytest.mark.parametrize("power", ["share", "profile"])
def test_jobs_cannot_be_known_where_nobody_listens(power):
    found = finding("profiles", FACTS, Settings(power=PowerSettings(**{power: True})))
    assert (found.ok, found.remedy) == (False, '[profile] listen = "10.0.0.1:9818"')


def test_ordering_needs_multifactor():
    found = finding("priority plugin", facts(PriorityType="priority/basic"))
    assert (found.ok, found.remedy) == (False, "PriorityType=priority/multifactor")


def test_without_the_power_to_order_the_priority_plugin_is_not_missed():
    assert finding("priority plugin", facts(PriorityType="priority/basic"), Settings()).ok is None


def test_a_site_factor_plugin_would_write_over_us():
    found = finding("site factor", facts(PrioritySiteFactorPlugin="site_factor/example"))
    assert found.ok is False
    assert "PrioritySiteFactorPlugin=site_factor/example" in found.remedy


def test_an_ordinary_user_is_told_the_sacctmgr_command():
    found = finding("rights", facts(admin_level="None"))
    assert found.ok is False
    assert "sacctmgr add user slurmsched account=root adminlevel=Operator" in found.remedy


def test_an_ordinary_user_is_enough_to_observe():
    assert finding("rights", facts(admin_level="None"), Settings()).ok is None


def test_where_jobs_are_private_rights_are_needed_to_see_them_in_every_mode():
    found = finding("rights", facts(admin_level="None", PrivateData="jobs,usage"), Settings())
    assert found.ok is False
    assert "to see and write to other users' jobs it takes Operator" in found.text
    assert finding("rights", facts(admin_level="None", PrivateData="none"), Settings()).ok is None


def test_a_slurm_that_gives_every_job_whole_nodes_is_refused_with_the_line_to_change():
    found = finding("node selection", facts(SelectType="select/linear"))
    assert (found.ok, found.remedy) == (False, "SelectType=select/cons_tres")
    assert "Slurm gives every job whole nodes" in found.text
    assert finding("node selection", facts(SelectType="select/cons_tres")).ok is True


def test_a_slurm_that_stops_jobs_itself_is_said_to_do_what_times_leave_out():
    found = finding("preemption", facts(PreemptType="preempt/qos"))
    assert found.ok is None
    assert "Slurm stops jobs for others by itself (preempt/qos), which our times leave out" in found.text
    assert finding("preemption", facts(PreemptType="preempt/none")).ok is True


def test_in_a_federation_it_is_said_that_one_cluster_is_read():
    found = finding("federation", replace(FACTS, federation="grid"))
    assert found.ok is None
    assert "grid: lab alone is read and ordered" in found.text
    assert finding("federation", FACTS).ok is True


@pytest.mark.parametrize(
    ("version", "config", "ok", "remedy"),
    [
        ((22, 5, 8), {"SuspendProgram": "(null)"}, True, ""),
        ((22, 5, 8), {"SuspendProgram": "/bin/off"}, None, "PrivateData=cloud"),
        ((22, 5, 8), {"SuspendProgram": "/bin/off", "PrivateData": "jobs"}, None, "PrivateData=jobs,cloud"),
        ((22, 5, 8), {"SuspendProgram": "/bin/off", "PrivateData": "cloud,jobs"}, True, ""),
        ((24, 11, 5), {"SuspendProgram": "/bin/off"}, True, ""),
    ],
)
def test_nodes_of_a_cloud_that_slurm_hides_are_named_with_the_line_that_shows_them(version, config, ok, remedy):
    found = finding("nodes of clouds", replace(facts(**config), version=version))
    assert (found.ok, found.remedy) == (ok, remedy)


def test_without_slurmdbd_nobody_can_be_made_operator():
    found = finding("rights", facts(admin_level="None", AccountingStorageType="accounting_storage/none"))
    assert found.ok is False
    assert "sacctmgr" not in found.remedy


@pytest.mark.parametrize(("user", "level"), [("root", "SlurmUser"), ("slurm", "SlurmUser"), ("boss", "Administrator")])
def test_running_with_more_rights_than_needed_is_warned_about(user, level):
    assert finding("least privilege", facts(user=user, admin_level=level)).ok is False


def test_without_slurmdbd_running_as_slurm_user_is_the_only_way():
    bare = facts(user="slurm", admin_level="SlurmUser", AccountingStorageType="(null)")
    assert finding("least privilege", bare).ok is None


def test_flags_that_are_already_there_are_kept_in_the_line_to_add():
    assert finding("comments in sacct", facts(AccountingStoreFlags="job_script")).remedy == (
        "AccountingStoreFlags=job_script,job_comment"
    )
    assert finding("GPUs in sacct", facts(AccountingStorageTRES="cpu,mem,billing,license/x")).remedy == (
        "AccountingStorageTRES=license/x,gres/gpu"
    )


@pytest.mark.parametrize(
    ("version", "ok"), [((20, 11, 8), False), ((22, 5, 0), True), ((23, 11, 4), None), ((26, 5, 5), True)]
)
def test_versions_are_known_from_2205_on(version, ok):
    assert finding("Slurm version", facts(version=version)).ok is ok


def test_a_release_newer_than_any_tested_is_missing_a_word_from_the_admin_before_we_act_on_it():
    newer = facts(version=(27, 5, 0))
    assert finding("Slurm version", newer).ok is False
    assert finding("Slurm version", newer).remedy == "[slurm] allow_untested = true"
    assert finding("Slurm version", newer, Settings()).ok is None
    assert finding("Slurm version", newer, replace(ACT, slurm=SlurmSettings(allow_untested=True))).ok is None


def test_ended_jobs_must_be_remembered_over_some_cycles_where_there_is_no_accounting():
    bare = facts(MinJobAge="2 sec", AccountingStorageType="accounting_storage/none")
    assert finding("memory of ended jobs", bare).ok is False
    assert finding("memory of ended jobs", facts(MinJobAge="2 sec")).ok is None


def test_requeueing_needs_jobs_that_may_be():
    assert finding("requeue", facts(JobRequeue="0")).ok is False
    assert finding("requeue", facts(JobRequeue="0"), Settings()).ok is None


def test_acting_without_a_power_is_told():
    assert finding("powers", FACTS, Settings(daemon=DaemonSettings(mode="act"))).ok is False
    assert finding("powers", FACTS, Settings()).ok is None


def with_powers(**powers) -> Settings:
    return replace(ACT, power=replace(ACT.power, **powers), profile=ProfileSettings(home="gpu"))


def test_moving_nodes_needs_the_rights_of_slurm_user_and_those_are_not_too_many_then():
    lending = with_powers(profile=True, partition=True, nodes=True)
    found = finding("nodes of partitions", facts(SlurmUser="slurm(64030)"), lending)
    assert found.ok is False
    assert "run slurmsched as slurm" in found.remedy
    mighty = facts(user="slurm", admin_level="SlurmUser")
    assert finding("nodes of partitions", mighty, lending).ok is True
    assert finding("least privilege", mighty, lending).ok is None
    assert finding("nodes of partitions", mighty, with_powers(nodes=True)).ok is False


def test_the_profiling_partition_is_looked_at_where_it_is_used():
    assert finding("profiling partition", FACTS, with_powers(profile=True, partition=True)).ok is True
    assert "requeue" in finding("profiling partition", FACTS, with_powers(profile=True, requeue=False)).text
    found = finding("profiling partition", facts(EnforcePartLimits="ALL"), with_powers(profile=True))
    assert (found.ok, found.remedy) == (False, "EnforcePartLimits=ANY")


def test_sharing_needs_slots_and_a_bound_on_memory():
    on = Settings(power=PowerSettings(share=True))
    bounded = replace(on, share=ShareSettings(memory_mib=76_000.0))
    slots = facts(GresTypes="gpu,slot")
    assert finding("shared GPUs", FACTS, ACT).ok is True
    assert "GresTypes has no slot" in finding("shared GPUs", FACTS, bounded).text
    assert finding("shared GPUs", slots, on).remedy == "[share] memory_mib = 76000, for GPUs with 80 GB"
    assert finding("shared GPUs", slots, bounded).ok is True


def test_a_job_that_gets_its_gpus_back_needs_a_slot_of_each_type_on_the_nodes_where_it_may_start():
    on = Settings(power=PowerSettings(share=True), share=ShareSettings(memory_mib=76_000.0))
    shared = {"s1": "gpu:2,slot:i0:2(S:0),slot:i1:2(S:0)", "s2": "gpu:1,slot:i0:2", "cpu1": "(null)", "cpu2": "disk:3"}
    lacking = {"n1": "gpu:4", "n2": "gpu:4,slot:i0:1", "n3": "gpu:2,slot:i0:1,slot:i1:1"}
    mended = {"n1": "gpu:4,slot:i0:1,slot:i1:1,slot:i2:1"}
    slots = facts(GresTypes="gpu,slot")
    found = finding("shared GPUs", replace(slots, gres=shared | lacking), on)
    assert (found.ok, found.text.split(":")[0]) == (False, "n[1-2]")
    assert found.remedy == (
        "slot:i0:1,slot:i1:1 to the Gres of n[1-2] in slurm.conf; in gres.conf a line for each type,"
        " NodeName=n[1-2] Name=slot Type={i0,i1} Count=1 Flags=CountOnly"
    )
    assert finding("shared GPUs", replace(slots, gres=shared | mended), on).ok is True


def test_sending_jobs_to_types_of_gpus_takes_gpus_and_new_jobs_are_sent_where_the_submit_plugin_delays_them():
    steers = replace(ACT, power=PowerSettings(steer=True))
    assert finding("types of GPUs", facts()).text.startswith("power.steer is off")
    assert finding("types of GPUs", facts(), steers).ok
    late = finding("types of GPUs", facts(JobSubmitPlugins="(null)"), steers)
    assert (late.ok, "STEER_DELAY_S = 20" in late.remedy) == (None, True)
    assert finding("types of GPUs", facts(GresTypes="(null)"), steers).ok is False


def test_a_bound_on_the_load_takes_a_submit_plugin_that_lets_users_take_back_no_begin_time():
    bound = replace(ACT, power=PowerSettings(hold=True), policy=replace(ACT.policy, admission="load:1.2"))
    assert "is off" in finding("bound on the load", facts()).text
    open_line = finding("bound on the load", facts(JobSubmitPlugins="(null)"), bound)
    assert (open_line.ok, "LINE_AHEAD_S = 45" in open_line.remedy) == (None, True)
    assert finding("bound on the load", facts(JobSubmitPlugins="lua"), bound).ok


def test_jobs_leave_overloaded_nodes_where_they_may_be_requeued_and_slurmctld_asks_nodes_for_their_load():
    leave = replace(ACT, power=PowerSettings(migrate=True, requeue=True))
    assert finding("overloaded nodes", facts()).text.startswith("power.migrate is off")
    assert finding("overloaded nodes", facts(SlurmdTimeout="300 sec"), leave).ok
    assert finding("overloaded nodes", facts(SlurmdTimeout="0 sec"), leave).ok is None
    assert finding("overloaded nodes", facts(), replace(ACT, power=PowerSettings(migrate=True))).ok is False


def test_right_sizing_needs_cpus_that_are_counted_and_for_accounts_a_measured_use():
    name, sizes = "CPUs and memory", replace(ACT, power=PowerSettings(rightsize=True))
    listed = replace(sizes, rightsize=RightsizeSettings(accounts=("astro",)))
    counted = {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core_Memory"}
    assert finding(name, facts()).text.startswith("power.rightsize is off")
    assert finding(name, facts(**counted), sizes).ok
    assert "astro" in finding(name, facts(**counted, JobAcctGatherType="jobacct_gather/cgroup"), listed).text
    assert finding(name, facts(SelectType="select/linear"), sizes).ok is False
    assert finding(name, facts(**counted, JobAcctGatherType="jobacct_gather/none"), listed).ok is False
    assert finding(name, facts(**counted, AccountingStorageType="accounting_storage/none"), listed).ok is False
    limited = counted | {"AccountingStorageEnforce": "associations,limits"}
    assert finding(name, facts(**limited), sizes).ok is False
    assert finding(name, facts(**limited), replace(sizes, rightsize=RightsizeSettings(despite_limits=True))).ok
    cpus_alone = counted | {"SelectTypeParameters": "CR_Core"}
    assert finding(name, facts(**cpus_alone), sizes).ok is None


def test_other_numbers_of_gpus_take_gpus_and_running_jobs_are_stopped_for_them_with_power_requeue_alone():
    sizes = replace(ACT, power=PowerSettings(resize=True))
    assert finding("numbers of GPUs", facts()).text.startswith("power.resize is off")
    alone = finding("numbers of GPUs", facts(), sizes)
    assert (alone.ok, alone.remedy) == (None, "[power] requeue = true")
    assert finding("numbers of GPUs", facts(), replace(ACT, power=PowerSettings(resize=True, requeue=True))).ok
    assert finding("numbers of GPUs", facts(GresTypes="(null)"), sizes).ok is False
    nodes = replace(ACT, power=PowerSettings(resize=True, requeue=True), resize=ResizeSettings(nodes=True))
    assert finding("numbers of GPUs", facts(), nodes).ok
    limited = finding("numbers of GPUs", facts(AccountingStorageEnforce="associations,limits"), nodes)
    assert (limited.ok, limited.remedy) == (None, "[resize] nodes = false, where there are such limits")
