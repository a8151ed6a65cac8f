"""The table of commands: module and help line of each, readable without importing it."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """The module of a command, and its short help."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "run": CommandEntry(
        "slurmsched.cli.daemon.run", "run", "Run the daemon, which schedules the cluster until stopped."
    ),
    "web": CommandEntry(
        "slurmsched.cli.daemon.web", "web", "Answer the questions of users over HTTP, for portals, scripts and people."
    ),
    "once": CommandEntry("slurmsched.cli.daemon.once", "once", "Run one cycle and report the result."),
    "check": CommandEntry(
        "slurmsched.cli.admin.check",
        "check",
        "Report missing or wrong settings of Slurm and slurmsched, with the lines to add.",
    ),
    "node-check": CommandEntry(
        "slurmsched.cli.admin.node_check.command",
        "node_check",
        "Try on this GPU node what the programs of the prolog need and do there.",
    ),
    "status": CommandEntry("slurmsched.cli.daemon.status", "status", "Show the state of the daemon."),
    "queue": CommandEntry("slurmsched.cli.jobs.queue", "queue", "List pending jobs in our order."),
    "why": CommandEntry(
        "slurmsched.cli.jobs.why",
        "why",
        "Explain why JOB is not running yet: the reason, the time, and what you can do.",
    ),
    "explain": CommandEntry(
        "slurmsched.cli.jobs.explain", "explain", "Explain the forecast, rank and points of JOB, term by term."
    ),
    "eta": CommandEntry("slurmsched.cli.jobs.eta", "eta", "Predict when jobs will start and finish, with intervals."),
    "accuracy": CommandEntry(
        "slurmsched.cli.models.accuracy", "accuracy", "Compare predicted starts and finishes with the actual ones."
    ),
    "deadline": CommandEntry(
        "slurmsched.cli.jobs.deadline", "deadline", "Show the promise for JOB, or the one for a new job."
    ),
    "advice": CommandEntry(
        "slurmsched.cli.study.advice", "advice", "Show the gain of the settings, and who gains or loses by our order."
    ),
    "report": CommandEntry(
        "slurmsched.cli.study.report",
        "report",
        "Report what jobs held, used and waited for, and what slurmsched changed.",
    ),
    "story": CommandEntry("slurmsched.cli.jobs.story", "story", "Show the whole history of JOB."),
    "ask": CommandEntry("slurmsched.cli.admin.ask", "ask", "Ask the daemon a QUESTION, and print its answer as JSON."),
    "mcp": CommandEntry(
        "slurmsched.cli.jobs.mcp_server",
        "mcp",
        "Answer an assistant's questions about your jobs.",
    ),
    "replay": CommandEntry(
        "slurmsched.cli.admin.replay", "replay", "Decide a recorded CYCLE again and compare the plans."
    ),
    "pause": CommandEntry("slurmsched.cli.daemon.pause", "pause", "Make the daemon observe only."),
    "resume": CommandEntry("slurmsched.cli.daemon.pause", "resume", "End a pause."),
    "trial": CommandEntry(
        "slurmsched.cli.daemon.trial", "trial", "Try the policy in blocks of time with and without it."
    ),
    "policy": CommandEntry("slurmsched.cli.admin.policy", "policy", "Show or set the ordering in force."),
    "config": CommandEntry("slurmsched.cli.admin.config", "config", "Check, show or describe the settings."),
    "history": CommandEntry("slurmsched.cli.admin.history", "history", "Import past jobs, or summarize them."),
    "train": CommandEntry(
        "slurmsched.cli.models.train", "train", "Train models on history, and activate those that are better."
    ),
    "models": CommandEntry("slurmsched.cli.models.models", "models", "Show trained models and what they are based on."),
    "warm-up": CommandEntry(
        "slurmsched.cli.admin.warm_up", "warm_up", "Compile the code of predictions and simulations in advance."
    ),
    "db": CommandEntry("slurmsched.cli.admin.db", "db", "Maintain the database."),
    "release-all": CommandEntry("slurmsched.cli.daemon.release_all", "release_all", "Return every job to Slurm."),
    "simulate": CommandEntry(
        "slurmsched.cli.study.simulate", "simulate", "Replay TRACE under one or more policies and compare them."
    ),
    "what-if": CommandEntry(
        "slurmsched.cli.study.whatif",
        "what_if",
        "Simulate the effect of another policy or more nodes on pending jobs.",
    ),
    "lab": CommandEntry(
        "slurmsched.cli.admin.lab", "lab", "Run a private real Slurm on loopback, beside any Slurm of this host."
    ),
    "demo": CommandEntry("slurmsched.cli.admin.demo", "demo", "Show the gains of slurmsched on a private Slurm."),
    "schema": CommandEntry(
        "slurmsched.cli.admin.schema", "schema", "Print a JSON Schema of what COMMAND prints with --json."
    ),
    "completion": CommandEntry(
        "slurmsched.cli.admin.completion", "completion", "Print the completion script of a shell."
    ),
}
