"""The commands by name: where each lives and its line in the help, known without importing it."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """Where a command is defined, and its short help."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "run": Place("slurmsched.cli.daemon.run", "run", "Steer the cluster until stopped: the daemon."),
    "once": Place("slurmsched.cli.daemon.once", "once", "Run one cycle and say what it did."),
    "check": Place(
        "slurmsched.cli.admin.check", "check", "Say what the cluster and we still need, with the lines to add."
    ),
    "status": Place("slurmsched.cli.daemon.status", "status", "Say how the daemon is."),
    "queue": Place("slurmsched.cli.jobs.queue", "queue", "List pending jobs in the order we want."),
    "why": Place("slurmsched.cli.jobs.why", "why", "Say why JOB is not running yet."),
    "explain": Place(
        "slurmsched.cli.jobs.explain", "explain", "Explain forecast, rank and points of JOB, term by term."
    ),
    "eta": Place("slurmsched.cli.jobs.eta", "eta", "Say when jobs will start and finish, and how sure that is."),
    "accuracy": Place("slurmsched.cli.models.accuracy", "accuracy", "Say how predicted starts and finishes came true."),
    "deadline": Place(
        "slurmsched.cli.jobs.deadline", "deadline", "Say what JOB was promised, or what a new job would be."
    ),
    "advice": Place("slurmsched.cli.jobs.advice", "advice", "Say which accounts and QOS our order helps and harms."),
    "story": Place("slurmsched.cli.jobs.story", "story", "Tell the whole history of JOB."),
    "replay": Place("slurmsched.cli.admin.replay", "replay", "Decide a recorded CYCLE again and compare."),
    "pause": Place("slurmsched.cli.daemon.pause", "pause", "Make the daemon observe only."),
    "resume": Place("slurmsched.cli.daemon.pause", "resume", "End a pause."),
    "policy": Place("slurmsched.cli.admin.policy", "policy", "Show which ordering serves, or let another one serve."),
    "config": Place("slurmsched.cli.admin.config", "config", "Check or show the settings."),
    "history": Place("slurmsched.cli.admin.history", "history", "Import or count what past jobs did."),
    "train": Place(
        "slurmsched.cli.models.train", "train", "Train models on history, and let those serve that are better."
    ),
    "tune": Place(
        "slurmsched.cli.study.tune", "tune", "Search better settings by simulating the site's own last month."
    ),
    "models": Place("slurmsched.cli.models.models", "models", "Show what was trained, and what it rests on."),
    "warm-up": Place("slurmsched.cli.admin.warm_up", "warm_up", "Compile what predictions and simulations need."),
    "db": Place("slurmsched.cli.admin.db", "db", "Look after the database."),
    "release-all": Place("slurmsched.cli.daemon.release_all", "release_all", "Give every job back to Slurm."),
    "simulate": Place(
        "slurmsched.cli.study.simulate", "simulate", "Replay TRACE under one or more policies and compare them."
    ),
    "what-if": Place(
        "slurmsched.cli.study.whatif",
        "what_if",
        "Say what another policy or more nodes would do to the jobs that wait now.",
    ),
    "pareto": Place(
        "slurmsched.cli.study.pareto",
        "pareto",
        "Find settings of weighted fair queueing of which none is better in all objectives.",
    ),
    "lab": Place(
        "slurmsched.cli.admin.lab", "lab", "A private real Slurm on loopback, beside whatever this host runs."
    ),
    "demo": Place("slurmsched.cli.admin.demo", "demo", "Show on a private Slurm what slurmsched gains."),
    "completion": Place("slurmsched.cli.admin.completion", "completion", "Print the completion script of a shell."),
}
