"""The commands by name: where each lives and its line in the help, known without importing it."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """Where a command is defined, and its short help."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "run": CommandEntry("slurmsched.cli.daemon.run", "run", "Steer the cluster until stopped: the daemon."),
    "once": CommandEntry("slurmsched.cli.daemon.once", "once", "Run one cycle and say what it did."),
    "check": CommandEntry(
        "slurmsched.cli.admin.check", "check", "Say what the cluster and we still need, with the lines to add."
    ),
    "status": CommandEntry("slurmsched.cli.daemon.status", "status", "Say how the daemon is."),
    "queue": CommandEntry("slurmsched.cli.jobs.queue", "queue", "List pending jobs in the order we want."),
    "why": CommandEntry("slurmsched.cli.jobs.why", "why", "Say why JOB is not running yet."),
    "explain": CommandEntry(
        "slurmsched.cli.jobs.explain", "explain", "Explain forecast, rank and points of JOB, term by term."
    ),
    "eta": CommandEntry("slurmsched.cli.jobs.eta", "eta", "Say when jobs will start and finish, and how sure that is."),
    "accuracy": CommandEntry(
        "slurmsched.cli.models.accuracy", "accuracy", "Say how predicted starts and finishes came true."
    ),
    "deadline": CommandEntry(
        "slurmsched.cli.jobs.deadline", "deadline", "Say what JOB was promised, or what a new job would be."
    ),
    "advice": CommandEntry(
        "slurmsched.cli.jobs.advice", "advice", "Say which accounts and QOS our order helps and harms."
    ),
    "story": CommandEntry("slurmsched.cli.jobs.story", "story", "Tell the whole history of JOB."),
    "replay": CommandEntry("slurmsched.cli.admin.replay", "replay", "Decide a recorded CYCLE again and compare."),
    "pause": CommandEntry("slurmsched.cli.daemon.pause", "pause", "Make the daemon observe only."),
    "resume": CommandEntry("slurmsched.cli.daemon.pause", "resume", "End a pause."),
    "policy": CommandEntry(
        "slurmsched.cli.admin.policy", "policy", "Show which ordering serves, or let another one serve."
    ),
    "config": CommandEntry("slurmsched.cli.admin.config", "config", "Check or show the settings."),
    "history": CommandEntry("slurmsched.cli.admin.history", "history", "Import or count what past jobs did."),
    "train": CommandEntry(
        "slurmsched.cli.models.train", "train", "Train models on history, and let those serve that are better."
    ),
    "tune": CommandEntry(
        "slurmsched.cli.study.tune", "tune", "Search better settings by simulating the site's own last month."
    ),
    "models": CommandEntry("slurmsched.cli.models.models", "models", "Show what was trained, and what it rests on."),
    "warm-up": CommandEntry(
        "slurmsched.cli.admin.warm_up", "warm_up", "Compile what predictions and simulations need."
    ),
    "db": CommandEntry("slurmsched.cli.admin.db", "db", "Look after the database."),
    "release-all": CommandEntry("slurmsched.cli.daemon.release_all", "release_all", "Give every job back to Slurm."),
    "simulate": CommandEntry(
        "slurmsched.cli.study.simulate", "simulate", "Replay TRACE under one or more policies and compare them."
    ),
    "what-if": CommandEntry(
        "slurmsched.cli.study.whatif",
        "what_if",
        "Say what another policy or more nodes would do to the jobs that wait now.",
    ),
    "pareto": CommandEntry(
        "slurmsched.cli.study.pareto",
        "pareto",
        "Find settings of weighted fair queueing of which none is better in all objectives.",
    ),
    "lab": CommandEntry(
        "slurmsched.cli.admin.lab", "lab", "A private real Slurm on loopback, beside whatever this host runs."
    ),
    "demo": CommandEntry("slurmsched.cli.admin.demo", "demo", "Show on a private Slurm what slurmsched gains."),
    "completion": CommandEntry(
        "slurmsched.cli.admin.completion", "completion", "Print the completion script of a shell."
    ),
}
