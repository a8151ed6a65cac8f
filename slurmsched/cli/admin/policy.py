"""``slurmsched policy``."""

from __future__ import annotations

import getpass
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ..app import App
from ..failure import NotFound, wrong_usage
from ..guests import GuestGroup
from ..output import Cell, TextTable, emit, json_option, table_options
from ..time_format import moment, span

if TYPE_CHECKING:
    from ...daemon.active_policy import ActivePolicy, PolicyStatus
    from ...daemon.api.record_summaries import Choice
    from ...db.records.policy_choices import PolicyChoice
    from ..json_answers import Frozen, PolicyShown, PolicyWithChoices

DAY_S = 86400.0
REASON_MOST = 200


@click.group(cls=GuestGroup, guests_under="policy")
def policy() -> None:
    """Show or set the ordering in force."""


@policy.command()
@click.option("--all", "whole", is_flag=True, help="Also list all earlier choices, the latest first.")
@table_options
@click.pass_obj
def show(app: App, whole: bool, as_json: bool) -> None:
    """Show the ordering in force, its parameters, since when and by whom."""
    now_s, reply = app.clock.now(), _status(app)
    policy: PolicyStatus = reply["policy"] if "policy" in reply else _wanted(app)
    facts: PolicyShown = {"source": reply["source"], "mode": reply["mode"], **policy}
    parts: list[str | TextTable] = [serving(facts, now_s), facts["summary"]]
    if facts["auto"]:
        parts += _synthesis(facts["auto"], now_s)
    if facts["parameters"]:
        rows: list[list[Cell]] = [[name, value] for name, value in facts["parameters"].items()]
        parts.append(TextTable(("PARAMETER", "VALUE"), rows))
    parts += _warnings(facts)
    shown: PolicyShown | PolicyWithChoices = facts
    if whole:
        choices: list[Choice] = app.answers().query("choices")["choices"]
        shown = {**facts, "choices": choices}
        parts.append(TextTable(("SET", "BY", "ORDERING", "REASON"), [_row(choice) for choice in choices]))
        for choice in choices:
            if choice["synthesis"] and choice["synthesis"]["step"]:
                parts += [f"{moment(choice['at_s'])}:", _scores(choice["synthesis"]["step"])]
    emit(shown, *parts, as_json=as_json)


@policy.command("set")
@click.argument("words", nargs=-1, metavar="[ORDERING [NAME=VALUE]...]")
@click.option("--reset", is_flag=True, help="Return to the ordering of the settings.")
@click.option("--from-history", is_flag=True, help="Make the classes of wfq from the sizes of past runs.")
@click.option("--days", type=click.FloatRange(0.01, 3650), help="How far back --from-history looks.  [default: 30]")
@click.option(
    "--variation", type=float, help="T, the greatest variation of sizes in a class of --from-history.  [default: 1]"
)
@click.option("--slope", type=float, help="W of the weights of --from-history, e^(-iW).  [default: 0.5]")
@click.option("--reason", default="", metavar="TEXT", help="The reason, for the record.")
@json_option
@click.pass_obj
def set_(app: App, /, words: Sequence[str], reset: bool, reason: str, as_json: bool, **options: Any) -> None:
    """Set the ordering to ORDERING, from the daemon's next cycle on.

    The settings file stays unchanged. The choice survives restarts, until it is replaced or reset:

    \b
        slurmsched policy set sjf --reason "many short jobs before the deadline"
        slurmsched policy set wfq thresholds=3600,36000,inf weights=5,3,2
        slurmsched policy set wfq --from-history
        slurmsched policy set --reset
    """
    from ...daemon.api.record_summaries import choice_facts
    from ...db.records.policy_choices import PolicyChoice
    from ...decide.synthesis import SynthesisRules, is_auto
    from ...policies.contract import find_ordering

    if reset == bool(words):
        raise click.UsageError("Say ORDERING or --reset, one of them.")
    if len(reason) > REASON_MOST:
        raise click.BadParameter(f"at most {REASON_MOST} characters", param_hint="--reason")
    words = _with_history(app, words, options)
    with wrong_usage():
        line = " ".join(words)
        if is_auto(line):
            SynthesisRules.of(line)
        elif not reset:
            line = find_ordering(line).line
    choice = PolicyChoice(line, getpass.getuser(), app.clock.now(), reason)
    app.writable_store().choose(app.cluster_name(), choice)
    own = app.settings().policy.ordering
    sentence = f"{line or f'{own}, as the settings say,'} orders the jobs from the daemon's next cycle on"
    emit(choice_facts(choice), sentence, as_json=as_json)


@policy.command()
@click.option("--undo", is_flag=True, help="Let auto switch again.")
@click.option("--reason", default="", metavar="TEXT", help="The reason, for the record.")
@json_option
@click.pass_obj
def freeze(app: App, undo: bool, reason: str, as_json: bool) -> None:
    """Keep the composition that auto has in force, from the daemon's next cycle on.

    It goes on to forecast, and only advises, until --undo or another policy set.
    """
    from ...db.records.policy_choices import PolicyChoice

    latest, chosen = _chosen(app)
    if chosen.synthesis is None:
        raise NotFound(f"the policy in force is {chosen.policy.ordering.line}, which chooses no composition by itself")
    state = replace(chosen.synthesis.state, frozen=not undo, step=None)
    line = latest.line if latest else ""
    choice = PolicyChoice(line, getpass.getuser(), app.clock.now(), reason, state.to_json())
    app.writable_store().choose(app.cluster_name(), choice)
    what = "may change again" if undo else "stays"
    sentence = f"{state.active.candidate} {what} from the daemon's next cycle on"
    facts: Frozen = {"composition": str(state.active.candidate), "frozen": state.frozen}
    emit(facts, sentence, as_json=as_json)


def serving(policy: Mapping[str, Any], now_s: float) -> str:
    """Describe the ordering in force and its author in one sentence."""
    since, by = moment(policy["since_s"], now_s), f" by {policy['by']}" if policy["by"] else ""
    if auto := policy.get("auto"):
        policy = {**policy, "ordering": f"{auto['line']}, now {auto['composition']}"}
    if policy["from"] == "settings":
        reset = f", back to it since {since}{by}" if policy["since_s"] else ""
        return f"{policy['ordering']} (from the settings{'' if policy['trouble'] else reset})"
    why = f": {policy['reason']}" if policy["reason"] else ""
    return f"{policy['ordering']} (set {since}{by}{why})"


def _warnings(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts["trouble"]:
        yield facts["trouble"]
    yield from facts["notes"]
    if facts["source"] != "daemon":
        yield "no daemon answers: a daemon would use this"
    elif facts["mode"] != "act":
        yield f"slurmsched only observes (mode {facts['mode']}): Slurm orders the jobs by itself"


def _status(app: App) -> dict[str, Any]:
    from ...daemon.api.query_protocol import DaemonUnreachable

    try:
        return app.answers().query("status")
    except DaemonUnreachable:
        return {"source": "record", "mode": app.settings().daemon.mode}


def _wanted(app: App) -> PolicyStatus:
    """Return the status of the ordering that a daemon would use."""
    return _chosen(app)[1].status()


def _chosen(app: App) -> tuple[PolicyChoice | None, ActivePolicy]:
    """Return the latest choice, and the policy that a daemon would use."""
    from ...daemon.active_policy import ActivePolicy
    from ...daemon.policy_settings import policy_of

    latest = next(iter(app.store().choices(app.cluster_name(), 1)), None)
    chosen = ActivePolicy(policy_of, app.settings(), dict)
    chosen.apply(latest)
    return latest, chosen


def _synthesis(auto: Mapping[str, Any], now_s: float) -> Iterator[str | TextTable]:
    """Describe the composition in force, the last decision, and what was left out."""
    since = f" since {moment(auto['since_s'], now_s)}" if auto["since_s"] and math.isfinite(auto["since_s"]) else ""
    does = "frozen" if auto["frozen"] else "switches by itself" if auto["acts"] else "only advises (policy.auto)"
    yield f"{auto['composition']}{since}; {does}"
    if auto["advised"]:
        yield f"advised: {auto['advised']}"
    if step := auto["step"]:
        yield f"last decision, {moment(step['now_s'], now_s)}: {step['reason']}"
        yield _scores(step)
    for name, reason in auto["left_out"].items():
        yield f"left out: {name}: {reason}"


def _scores(step: Mapping[str, Any]) -> TextTable:
    """Return the table of a decision: the forecast score of each composition, the best first."""
    before, after = step["before"][:2], step["after"][:2]
    rows: list[list[Cell]] = []
    for ordering, admission, score_s in sorted(step["scores"], key=lambda row: math.inf if row[2] is None else row[2]):
        names = [ordering, admission]
        mark = ("in force" if names == before else "") + (" chosen" if step["switched"] and names == after else "")
        rows.append([ordering, admission, None if score_s is None else span(score_s), mark.strip()])
    rows.append(["(no delay)", "", span(step["undelayed_s"]), ""])
    return TextTable(("ORDERING", "ADMISSION", "FORECAST", ""), rows)


def _row(choice: Choice) -> list[Cell]:
    line = choice["line"] or "(settings)"
    if state := choice["synthesis"]:
        advised = f", advised {state['advised']}" if state["advised"] else ""
        line = f"{line}: {state['composition']}{', frozen' if state['frozen'] else ''}{advised}"
    return [moment(choice["at_s"]), choice["by"], line, choice["reason"]]


def _with_history(app: App, words: Sequence[str], options: Mapping[str, Any]) -> Sequence[str]:
    """Return *words* with thresholds and weights from past runs, where requested."""
    details = ("days", "variation", "slope")
    if not options["from_history"]:
        if unused := [name for name in details if options[name] is not None]:
            raise click.UsageError(f"--{unused[0]} goes with --from-history.")
        return words
    if words[:1] != ("wfq",) or any(word.startswith(("thresholds=", "weights=")) for word in words):
        raise click.UsageError("--from-history makes the thresholds and weights of wfq: say wfq, and neither of them.")
    days, variation, slope = (
        default if options[name] is None else options[name]
        for name, default in zip(details, (30.0, 1.0, 0.5), strict=True)
    )
    return [*words, *_classes(app, days, variation, slope)]


def _classes(app: App, days: float, variation: float, slope: float) -> list[str]:
    import numpy as np

    from ...policies.ordering.wfq import Wfq
    from ...policies.ordering.wfq_line import line_of

    runs = app.store().history(app.cluster_name(), since_s=app.clock.now() - days * DAY_S)
    sizes = runs.runtime_s * np.maximum(runs.gpus, 1)
    sizes = sizes[sizes > 0]
    if not len(sizes):
        raise NotFound(f"the database holds no runs of the last {days:g} days; try: slurmsched history import")
    return line_of(Wfq.of(sizes, variation, slope, 0.0)).split()[:2]
