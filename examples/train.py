"""Training in place of training: counts steps, and keeps the number of the next one as its checkpoint."""

import os
import time

try:
    from slurmsched.job import Lease
except ImportError:  # where only the one file lies beside this one
    from job import Lease

STEPS = int(os.environ.get("STEPS", "600"))
STEP_S = float(os.environ.get("STEP_S", "1"))

lease = Lease("checkpoints")
for step in range(lease.resume_at(), STEPS):
    time.sleep(STEP_S)
    print("step", step, flush=True)
    if lease.should_stop(step):
        lease.checkpoint_done(step + 1)  # after the state itself is written, next to it
        if lease.give_way():
            break
else:
    print("done", flush=True)
