"""Carrying a plan out: within the budget, behind the fence."""

from __future__ import annotations

from slurmsched.cluster.actions import Rank
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import BATCH, NOT_SENT, Writer


def queued(count: int) -> tuple[FakeSlurm, list[Rank]]:
    cluster = FakeSlurm()
    return cluster, [Rank(cluster.submit(60.0), 5) for _ in range(count)]


def test_what_matters_most_goes_first_and_the_rest_waits():
    cluster, wishes = queued(8)
    assert Writer(cluster, Budget(1.0, 3)).affordable(wishes, (), 0.0) == tuple(wishes[:3])


def test_a_job_that_refused_a_moment_ago_costs_no_token():
    cluster, wishes = queued(5)
    shy_of = {wishes[0].job_id, wishes[2].job_id}
    assert Writer(cluster, Budget(1.0, 2)).affordable(wishes, shy_of, 0.0) == (wishes[1], wishes[3])


def test_everything_is_sent_in_order_in_batches_behind_the_fence():
    cluster, wishes = queued(2 * BATCH + 5)
    looks: list[int] = []

    def fence() -> bool:
        looks.append(len(cluster.written))
        return True

    answers = Writer(cluster, Budget(1.0, 1000), fence).send(wishes)
    assert [answer.action for answer in answers] == cluster.written == wishes
    assert looks == [0, BATCH, 2 * BATCH]


def test_once_another_daemon_leads_nothing_more_is_sent_and_the_answers_say_so():
    cluster, wishes = queued(3 * BATCH)
    leads = iter([True, False])
    answers = Writer(cluster, Budget(1.0, 1000), lambda: next(leads)).send(wishes)
    assert cluster.written == wishes[:BATCH]
    assert [answer.action for answer in answers] == wishes
    assert [answer.refused for answer in answers] == [None] * BATCH + [NOT_SENT] * 2 * BATCH


def test_behind_a_closed_fence_nothing_is_sent_at_all():
    cluster, wishes = queued(1)
    assert Writer(cluster, Budget(1.0, 10), lambda: False).send(wishes)[0].refused == NOT_SENT
    assert cluster.written == []


def test_nothing_to_send_asks_nobody():
    def fence() -> bool:
        raise AssertionError("asked")

    assert Writer(FakeSlurm(), Budget(1.0, 10), fence).send([]) == ()
