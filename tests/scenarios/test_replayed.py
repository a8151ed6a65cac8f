"""What was decided on a real cluster is decided again from its record, in another process, bit for bit."""

from __future__ import annotations

import json
import signal
import subprocess

DECIDE_AGAIN = """
import json, sys
from slurmsched.decide.plan_differences import differences
from slurmsched.db.store import Store
from slurmsched.powers import decide
from slurmsched.decide.policy import Policy
from slurmsched.policies import ordering
found = {}
store = Store(sys.argv[1])
for number in store.decision_numbers():
    record = store.decision(number)
    policy = Policy.from_json(record.settings_json)
    again = decide(record.view, policy.ordering, policy.rules)
    found[number] = list(differences(record.plan, again, record.view.pending))
print(json.dumps(found))
"""
"""Every recorded cycle decided once more, in a process of its own: where the plans differ, by number."""


def test_every_cycle_of_a_lively_lab_can_be_replayed(site):
    lab = site.lab
    site.fill()
    site.queue(4)
    array = lab.submit("--array=1-4%2", "--gres=gpu:2", "--wrap=sleep 1", "-t2", "-o/dev/null", user="dave")
    lab.submit("--hold", "--wrap=true", "-o/dev/null", user="bob")
    lab.submit(f"--dependency=afterany:{array}", "--wrap=true", "-o/dev/null", user="carol")
    lab.submit("--comment=slurmsched:off", "--wrap=true", "-t3", "-o/dev/null", user="carol")
    lab.submit("--nice=5", "--qos=high", "--wrap=true", "-o/dev/null", user="alice")
    with site.daemon() as process:
        site.more_cycles()
        lab.run(["scancel", "--state=RUNNING"])
        site.until(lambda: site.states()[array] == "COMPLETED", "the end of an array")
        site.more_cycles()
        process.send_signal(signal.SIGTERM)
        assert process.wait(90.0) == 0
    with site.store() as store:
        numbers = store.decision_numbers()
        actions = sum(len(record.plan.actions) for number in numbers if (record := store.decision(number)))
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 4
    assert actions >= 3, "decisions worth replaying"
    again = subprocess.run(
        site.python("-c", DECIDE_AGAIN, site.url), env=site.environment, capture_output=True, text=True, timeout=60
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == {str(number): [] for number in numbers}
    assert site.said("replay", str(numbers[-1]))["identical"] is True
