"""A power: jobs whose names begin with nap- start an hour after they were submitted."""

import numpy as np

from slurmsched import Hold, power

NAP_S = 3600.0


@power("siesta", powers=("hold",))
def siesta(view):
    """Jobs whose names begin with nap- have a nap of an hour first."""
    jobs = view.pending
    naps = jobs.name.map([name.startswith("nap-") for name in jobs.name.names], np.bool_)
    until_s = jobs.first_submit_s + NAP_S
    rows = np.flatnonzero(naps & (until_s > view.now_s)).tolist()
    return [Hold(int(jobs.job_id[row]), float(until_s[row])) for row in rows]
