"""What is said of the number of GPUs of a job."""

from __future__ import annotations

from dataclasses import replace

import pytest
from decide.test_resizing import RULES, runs, sized
from decide.views import NOW_S, jobs, nodes, view

from slurmsched.decide.rules import Rules
from slurmsched.explain.explain import explain
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

FIFO = find_ordering("fifo")


def said(seen, rules=RULES, job=1):
    return " ".join(why(seen, decide(seen, FIFO, rules), rules, job).sentences)


def test_why_tells_of_a_new_number_and_of_what_is_known_of_the_kind():
    words = said(view(sized(size_speeds=["2=1 4=1.7"])))
    assert "We let it ask for 4 GPUs in place of 2: so jobs end soonest." in words
    assert "The speed of jobs of its kind by GPUs is 1 on 2, 1.7 on 4." in words
    shares = replace(RULES, resizing=replace(RULES.resizing, division="pollux"))
    assert "4 GPUs in place of 2: so it ends sooner, or shares what is free by the mean of speed-ups (pollux)." in said(
        view(sized()), shares
    )


def test_why_tells_of_a_number_of_ours_and_when_it_may_grow_again():
    words = said(view(sized(gpus=4, own_gpus=[2], resized_s=[NOW_S - 300.0])))
    assert "By us it asks for 4 GPUs, its owner asked for 2." in words
    assert "It gets more GPUs in 5 min at the earliest." in words


def test_why_tells_of_the_noise_that_a_job_reports_and_what_it_means():
    grows = {"comment": "slurmsched:gpus=2-8,batch=256-768,ckpt", "noise": [512.0]}
    told = (
        "It reports a gradient noise scale of 512 samples: on 8 GPUs a step of 768 is worth 1.80 of those of 256 on 2."
    )
    assert told in said(view(sized(**grows)))
    samples = "The samples that jobs of its kind go through in a second by GPUs are in the proportion 1 on 2, 1.5 on 4."
    assert samples in said(view(sized(**grows, sample_speeds=["2=1 4=1.5"])))
    assert "noise" not in said(view(sized(**grows, size_speeds=["2=1 4=1.7"])))
    assert "noise" not in said(view(sized(noise=[512.0])))
    running = view(jobs(0), running=runs(**grows))
    assert told in explain(running, decide(running, FIFO, RULES), RULES, 901).sentences


def test_why_tells_of_a_new_number_of_nodes():
    spread = {"gpus": 8, "nodes": [2], "comment": "slurmsched:gpus=4-16,ckpt"}
    rules = replace(RULES, resizing=replace(RULES.resizing, nodes=True))
    words = said(view(sized(**spread), room=nodes((4, 4, 4), (0, 0, 0))), rules)
    assert "We let it ask for 12 GPUs on 3 nodes in place of 8 on 2: so jobs end soonest." in words
    uneven = view(sized(**(spread | {"gpus": 7})))
    assert "It keeps its number of GPUs: its nodes have different numbers of GPUs." in said(uneven, rules)


def test_why_tells_of_a_number_that_is_given_back():
    assert "It asks for 2 GPUs again, as its owner did." in said(view(sized(gpus=4, own_gpus=[2])), Rules())


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"comment": "slurmsched:gpus=2-4"}, "it does not say ckpt."),
        ({"requeueable": [False]}, "it was submitted with --no-requeue."),
        ({"comment": "slurmsched:gpus=3-4,ckpt"}, "it asks for 2, and says gpus=3-4."),
        ({"nodes": [2]}, "it has several nodes, and resize.nodes is off."),
        ({"node_range": ["1-2"]}, "Slurm gives it 1-2 nodes, with as many GPUs on each (say --nodes=N)."),
        ({"array_job_id": [1]}, "it has several parts."),
        ({"per_gpu": [True]}, "it asks for GPUs per task, or for CPUs or memory per GPU."),
        ({"required_nodes": ["n1"]}, "more depends on it, such as a promise,"),
    ],
    ids=str,
)
def test_why_tells_why_a_job_with_a_range_keeps_its_number(columns, reason):
    assert f"It keeps its number of GPUs: {reason}" in said(view(sized(**columns)))


def test_nothing_is_said_without_the_power_or_of_other_jobs():
    plain = said(view(sized(comment="")))
    assert said(view(sized()), Rules()) == plain
    assert "its number" not in plain


def test_explain_tells_of_a_running_job_with_another_number():
    running = replace(runs(gpus=4), own_gpus=runs(gpus=2).gpus)
    seen = view(jobs(0), running=running, room=nodes((4, 4), (4, 0)))
    words = explain(seen, decide(seen, FIFO, RULES), RULES, 901).sentences
    assert "By us it runs on 4 GPUs, its owner asked for 2." in words
