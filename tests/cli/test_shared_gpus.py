"""Sharing by a whole daemon on a fake Slurm: pairs by itself, after a kill, on an ordered stop, after a fault."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli.fake_site import NOW_S, FakeSite

from slurmsched.cli.daemon.build import Daemon, build
from slurmsched.cluster.actions import Rank, Requeue, Share, StartShared, Unmark, Unshare
from slurmsched.cluster.job_record import EndedRun, JobRecord, outcomes_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.faults import Fault, Instability
from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.db.tracking.intents import EAGER
from slurmsched.decide.policy import Policy
from slurmsched.powers import decide
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.port import ActionResult

EVERY_S = 15.0
PAST_S = int(NOW_S) - 5000
PROFILE = NodeProfile(7, 0, "n1", PAST_S, PAST_S + 1000, 1, 1000.0, 0.9, 0.1, 0.1, 0.05, 2000.0, 100.0, 0.0)
BEFORE = JobRecord(
    *(7, 0, -1, 1, "light_0", "alice", "physics", "normal", "gpu", 1, 1, 1),
    *(3600.0, PAST_S, PAST_S, PAST_S, 0, PAST_S),
)


class Site(FakeSite):
    """n1 has whole GPUs, all of them in use for long; those of n2 are shared. Jobs called light_N were measured."""

    def __init__(self, directory: Path, slurm: type[FakeSlurm] = FakeSlurm) -> None:
        lists = {"gpu": "n1", "shared": "n2"}
        fake = slurm(nodes=2, shared_nodes=1, now_s=NOW_S, partitions={"gpu": 1, "shared": 1}, node_lists=lists)
        settings = "mode = 'act'\n[power]\norder = true\nshare = true\n[share]\nmemory_mib = 16000\n"
        super().__init__(directory, settings + "[metrics]\nlisten = ''\n", fake)
        self.make_tables()
        self.slurm.submit(50_000.0, gpus=4, time_limit_s=60_000.0)
        self.slurm.advance(1.0)

    def daemon(self) -> Daemon:
        daemon = build(self)
        store = self.store()
        store.add_outcomes("fake", outcomes_of([EndedRun(BEFORE, PAST_S + 1000.0, JobState.COMPLETED)]))
        store.add_profiles("fake", [PROFILE])
        return daemon

    def power(self, *lines: str) -> None:
        """Switch more powers on."""
        self.file.write_text(self.file.read_text().replace("[power]\n", "\n".join(["[power]", *lines, ""])))

    def turn(self, daemon: Daemon, times: int = 1):
        for _ in range(times):
            self.clock.now_s = self.slurm.now_s
            turn = daemon.service.once()
            assert turn.ok, turn.error
            self.slurm.advance(EVERY_S)
        return turn.report

    def light(self, **details) -> int:
        return self.slurm.submit(900.0, **{"name": "light_1", "time_limit_s": 1800.0, **details})

    def runs_on(self, job_id: int) -> str:
        job = self.slurm.jobs[job_id]
        return f"{job.required_nodes} {job.per_node}" if job.state == JobState.RUNNING else ""


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    yield site
    site.close()


def sent(site, *kinds):
    return [action for action in site.slurm.written if isinstance(action, kinds)]


def test_a_daemon_pairs_measured_jobs_by_itself(site):
    daemon = site.daemon()
    ones, twos = [site.light(), site.light()], [site.light(gpus=2), site.light(gpus=2)]
    stranger = site.light(name="unknown")
    site.turn(daemon, 3)
    assert site.runs_on(ones[0]) == "n2 gres:slot:i0:1"
    later = site.light(comment="note")
    site.turn(daemon, 5)
    assert site.runs_on(later) == site.runs_on(ones[0])
    assert {site.runs_on(job) for job in twos} <= {
        "n2 gres:slot:i1:1,gres:slot:i2:1",
        "n2 gres:slot:i2:1,gres:slot:i3:1",
    }
    assert site.slurm.jobs[later].comment == "note;slurmsched:share=0"
    assert not site.runs_on(stranger)
    assert not sent(site, Unshare)
    told = [event.kind for event in site.store().story("fake", later)]
    assert [kind for kind in told if kind in ("shared", "let start", "started")] == ["shared", "let start", "started"]
    daemon.close()


def test_a_job_shares_after_the_first_profile_of_one_of_its_kind_that_still_runs(site):
    daemon = site.daemon()
    (first,) = site.slurm.jobs
    later = site.light(name=site.slurm.jobs[first].name)
    site.turn(daemon, 6)
    assert not sent(site, Share)
    start_s = int(site.slurm.jobs[first].started_s)
    store = site.store()
    store.add_profiles("fake", [replace(PROFILE, job_id=first, start_s=start_s, end_s=start_s + 90)])
    site.turn(daemon, 6)
    assert {action.job_id for action in sent(site, Share)} == {later}
    record = store.latest_decision("fake")
    assert record.view.running.measured[record.view.running.row_of(first)], "the record has what was decided by"
    daemon.close()


def test_jobs_whose_profiles_never_arrive_share_with_nobody(site):
    daemon = site.daemon()
    lost = BEFORE._replace(job_id=8, name="lost_0")
    site.store().add_outcomes("fake", outcomes_of([EndedRun(lost, PAST_S + 1000.0, JobState.COMPLETED)]))
    jobs = [site.light(name=f"lost_{number}") for number in range(3)]
    measured = site.light()
    site.turn(daemon, 4)
    assert site.runs_on(measured)
    assert not any(site.runs_on(job) for job in jobs)
    assert {action.job_id for action in sent(site, Share)} == {measured}
    daemon.close()


def test_what_a_killed_daemon_began_the_next_one_ends(site):
    first = site.daemon()
    job = site.light()
    site.turn(first)
    first.close()
    assert sent(site, Share)
    assert not sent(site, StartShared)
    second = build(site)
    site.turn(second)
    assert sent(site, StartShared) == [StartShared(job, "0")]
    assert site.runs_on(job) == "n2 gres:slot:i0:1"
    second.close()


def test_what_a_killed_daemon_began_ends_by_itself_where_no_other_comes(site):
    daemon = site.daemon()
    job = site.light()
    site.turn(daemon)
    daemon.close()
    site.slurm.advance(2 * EVERY_S)
    assert site.runs_on(job) == "n2 gres:slot:i0:1"


class Half(FakeSlurm):
    """Takes the first line of a Share alone: the job has its token and a begin time, and asks for what it did."""

    refuses = True

    def act(self, actions):
        before = dict(self.jobs)
        answers = super().act(actions)
        for at, action in enumerate(actions):
            if isinstance(action, Share) and self.refuses:
                token = self.jobs[action.job_id].comment
                self.jobs[action.job_id] = replace(before[action.job_id], comment=token, begin_s=action.until_s)
                answers[at] = replace(answers[at], refused="no access")
        return answers


@pytest.fixture
def half(tmp_path):
    site = Site(tmp_path, slurm=Half)
    yield site
    site.close()


def test_a_job_that_slurm_keeps_out_has_its_comment_back_and_is_moved_again_after_ten_minutes(half):
    daemon = half.daemon()
    job = half.light(comment="note")
    assert half.turn(daemon).refused == 1
    half.turn(daemon, 10)
    told = half.answers().query("why", job_id=job)["why"]["details"]
    assert "It shares no GPUs for now. Slurm refused a change of its GPUs: no access." in told
    assert len(sent(half, Share)) == len(sent(half, Unmark)) == 1
    half.turn(daemon, 50)
    assert len(sent(half, Share)) == len(sent(half, Unmark)) == 2
    assert not sent(half, Unshare)
    back = half.slurm.jobs[job]
    assert (back.comment, back.partition, back.per_node, back.begin_s <= half.slurm.now_s) == ("note", "gpu", "", True)
    daemon.close()


class Stubborn(Half):
    """Gives nobody its comment back either."""

    def act(self, actions):
        no = [action for action in actions if isinstance(action, Unmark)]
        answers = {answer.action: answer for answer in super().act([each for each in actions if each not in no])}
        self.written += no
        return [answers.get(each, ActionResult(each, "no access")) for each in actions]


def test_what_slurm_refuses_for_ever_is_not_asked_in_every_cycle(tmp_path):
    site = Site(tmp_path, slurm=Stubborn)
    daemon = site.daemon()
    site.light()
    site.turn(daemon, 30)
    assert len(sent(site, Share)) == 1
    assert len(sent(site, Unmark)) == EAGER - 1
    daemon.close()
    site.close()


def test_a_job_whose_daemon_died_before_the_slots_starts_by_itself_on_gpus_of_its_own(half):
    daemon = half.daemon()
    job = half.light()
    half.turn(daemon)
    daemon.close()
    half.slurm.jobs[1] = replace(half.slurm.jobs[1], left_s=1.0)  # whole GPUs are free
    half.slurm.advance(2 * EVERY_S)
    assert (half.slurm.jobs[job].state, half.slurm.jobs[job].partition) == (JobState.RUNNING, "gpu")


def test_a_token_that_a_user_typed_moves_nothing_and_why_says_so(site):
    daemon = site.daemon()
    job = site.light(comment="slurmsched:share=0")
    site.turn(daemon, 2)
    assert not sent(site, Share, StartShared, Unshare)
    told = site.answers().query("why", job_id=job)["why"]
    assert "It shares no GPUs: its comment has a share token that is not ours." in told["details"]
    daemon.close()


def test_a_power_that_is_switched_off_by_a_reload_leaves_nobody_half_way(site):
    daemon = site.daemon()
    whole, half = site.light(), site.light()
    site.turn(daemon)
    site.slurm.jobs[half] = replace(site.slurm.jobs[half], per_node="none")
    site.file.write_text(site.file.read_text().replace("share = true", "share = false"))
    daemon.controller.reload()
    site.turn(daemon, 3)
    assert sent(site, StartShared, Unshare) == [StartShared(whole, "0"), sent(site, Unshare)[0]]
    assert (site.slurm.jobs[half].comment, site.slurm.jobs[half].required_nodes) == ("", "")
    daemon.close()


@pytest.mark.parametrize("comment", ["mine", 'a "b" c', "slurmsched:share=0 x"])
def test_an_owner_who_writes_another_comment_has_its_gpus_back_once_and_for_all(site, comment):
    daemon = site.daemon()
    job = site.light()
    site.turn(daemon)
    site.slurm.jobs[job] = replace(site.slurm.jobs[job], comment=comment, per_node="none")
    site.turn(daemon, 6)
    back = site.slurm.jobs[job]
    assert (back.required_nodes, back.per_node, back.partition) == ("", "", "gpu")
    assert back.comment in (comment, "x", "mine")
    assert len(sent(site, Share)) == len(sent(site, Unshare)) == 1
    daemon.close()


class Deaf(FakeSlurm):
    """Takes a job into the sharing partition, and never starts it there."""

    def _start_jobs(self):
        before = dict(self.jobs)
        super()._start_jobs()
        self.jobs |= {job.job_id: job for job in before.values() if job.per_node}


def test_a_job_that_waits_in_vain_has_its_gpus_back_also_after_a_kill(tmp_path):
    site = Site(tmp_path, slurm=Deaf)
    first = site.daemon()
    job = site.light(partition="gpu,gpu2")
    site.slurm.partitions["gpu2"], site.slurm.node_lists["gpu2"] = 1, "n1"
    site.turn(first, 3)
    assert site.slurm.jobs[job].partition == "shared"
    first.close()
    second = build(site)
    site.turn(second, 40)
    assert site.slurm.jobs[job].partition == "gpu,gpu2"
    assert len(sent(site, Share)) == len(sent(site, Unshare)) == 1
    second.close()
    site.close()


def test_an_ordered_stop_leaves_nobody_half_way(site):
    daemon = site.daemon()
    whole, half = site.light(), site.light()
    site.turn(daemon)
    site.slurm.jobs[half] = replace(site.slurm.jobs[half], per_node="none")
    daemon.controller.give_back(10.0)
    assert sent(site, StartShared, Unshare) == [StartShared(whole, "0"), sent(site, Unshare)[0]]
    back = site.slurm.jobs[half]
    assert (back.comment, back.required_nodes, back.per_node, back.partition) == ("", "", "", "gpu")
    daemon.close()


def test_kinds_that_failed_together_are_kept_apart_and_the_story_tells_why(site):
    daemon = site.daemon()
    first = site.light()
    site.turn(daemon, 3)
    fault = Fault(7, 0, "n1", PAST_S, PAST_S + 900, (0,), (7,), "the control daemon has ended")
    site.store().add_faults("fake", [fault, fault])
    assert site.store().mismatches("fake", NOW_S).failed == (("alice/light_#",),)
    site.slurm.advance(60.0)
    site.turn(daemon)
    second = site.light()
    site.turn(daemon, 4)
    assert site.runs_on(first)
    assert not site.runs_on(second)
    (event,) = [event for event in site.store().story("fake", 7) if event.kind == "failed together"]
    assert event.details == {"partners": "7", "fault": "the control daemon has ended"}
    daemon.close()


def unstable_pair(site, daemon, *comments: str, guests_user: str = "alice") -> tuple[int, int]:
    """Two jobs that share a GPU; its node has told that they do not go together, as the collector keeps it."""
    host = site.light(comment=comments[0])
    site.turn(daemon, 3)
    guest = site.light(comment=comments[1], user=guests_user)
    site.turn(daemon, 3)
    assert site.runs_on(host) == site.runs_on(guest) == "n2 gres:slot:i0:1"
    word = Instability(
        guest, 0, "n2", int(site.slurm.now_s) - 60, int(site.slurm.now_s), (0,), (host,), (0,), "it jumps"
    )
    site.store().add_instabilities("fake", [word, word])
    site.slurm.advance(60.0)
    site.turn(daemon)
    return host, guest


def explained(daemon: Daemon, job_id: int) -> list[str]:
    """What explain says."""
    return daemon.service.questions.answer({"ask": "explain", "job_id": job_id}, 0)["explain"]["sentences"]


def test_the_later_job_of_an_unstable_pair_is_requeued_once_and_goes_on_alone_also_after_a_kill(site):
    site.power("requeue = true")
    first = site.daemon()
    host, guest = unstable_pair(site, first, "slurmsched:ckpt", "slurmsched:ckpt")
    said = f"The load of the GPUs that it shares is unstable: it jumps. Job {guest} is stopped, and goes on alone."
    assert said in explained(first, guest)
    assert said in explained(first, host)
    assert sent(site, Requeue) == [Requeue(guest)]
    first.close()
    second = build(site)
    site.turn(second)
    site.slurm.jobs[1] = replace(site.slurm.jobs[1], left_s=30.0)  # whole GPUs are free soon
    said = f"Its load beside job {host} on the same GPUs was unstable (it jumps): it has GPUs of its own from now on."
    assert said in explained(second, guest)
    site.turn(second, 6)
    alone = site.slurm.jobs[guest]
    assert (alone.state, alone.restarts, alone.comment) == (JobState.RUNNING, 1, "slurmsched:ckpt")
    assert (alone.partition, alone.per_node, alone.required_nodes) == ("gpu", "", "")
    assert site.runs_on(host)
    assert sent(site, Requeue) == [Requeue(guest)]
    kinds = [event.kind for event in site.store().story("fake", guest)]
    assert [kind for kind in kinds if kind in ("unstable together", "requeue asked", "unshared", "requeued")] == [
        *("unstable together", "requeue asked", "requeued", "unshared"),
    ]
    assert "unstable together" in [event.kind for event in site.store().story("fake", host)]
    assert site.store().mismatches("fake", NOW_S).failed == (("alice/light_#",),)
    later = site.light()
    site.turn(second, 4)
    assert sent(site, Share)[-1].job_id != later, "jobs of this kind share no more"
    second.close()


def test_an_ordered_stop_gives_a_job_that_left_an_unstable_pair_gpus_of_its_own(site):
    site.power("requeue = true")
    daemon = site.daemon()
    _, guest = unstable_pair(site, daemon, "", "slurmsched:ckpt")
    assert sent(site, Requeue) == [Requeue(guest)]
    site.clock.now_s = site.slurm.now_s
    daemon.controller.give_back(10.0)
    assert [action.job_id for action in sent(site, Unshare)] == [guest]
    assert (site.slurm.jobs[guest].partition, site.slurm.jobs[guest].per_node) == ("gpu", "")
    daemon.close()


def test_what_was_known_of_jobs_that_share_is_in_the_record(site):
    daemon = site.daemon()
    site.light()
    site.turn(daemon)
    record = site.store().latest_decision("fake")
    assert (record.view.pending.measured.tolist(), record.view.pending.share_score.tolist()) == ([True], [0])
    assert json.loads(record.settings_json)["rules"]["sharing"]["memory_mib"] == 16000
    assert [type(action) for action in record.plan.actions if not isinstance(action, Rank)] == [Share]
    policy = Policy.from_json(record.settings_json)
    assert decide(record.view, policy.ordering, policy.rules).actions == record.plan.actions
    daemon.close()
