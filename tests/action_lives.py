"""The lives of actions as a table: ``python -m tests.action_lives`` prints it, and docs/design.md has it."""

from __future__ import annotations

import re
from typing import Any

from slurmsched.cluster.actions import ACTIONS, Action, JobAction
from slurmsched.cluster.actions.intent import Intent

HEAD = (
    "| action | power | seen when | over, with its job or when | if Slurm refuses | the next one | its effect closes |",
    "|---|---|---|---|---|---|---|",
)


def main() -> None:
    print("\n".join(table()))


def table() -> list[str]:
    return [*HEAD, *(f"| {' | '.join(_cells(name, kind))} |" for name, kind in ACTIONS.items())]


def _cells(name: str, kind: type[Action]) -> tuple[str, ...]:
    shown = kind.shown if issubclass(kind, JobAction) and _own(kind, "shown") else kind.seen
    seen = _condition(shown) if _own(kind, "shown") or _own(kind, "seen") else "never: nothing shows it"
    closed = _condition(kind.over) if _own(kind, "over") else "it is seen"
    return (
        f"`{name}`",
        kind.power,
        seen,
        closed,
        _refused(kind),
        "adds to it" if kind.accumulates else "replaces it",
        ", ".join(f"`{other}`" for other in kind.undoes) or "–",
    )


def _own(kind: type[Action], method: str) -> bool:
    """Whether a class has its own form of a method."""
    return method in vars(kind)


def _condition(method: Any) -> str:
    """The condition in a docstring: what follows "Return True if", or the reason why not."""
    text = re.sub(r"\s+", " ", str(method.__doc__).partition("\n\n")[0]).strip().rstrip(".")
    if match := re.fullmatch(r"Return False: (.*)", text):
        return f"never: {match[1]}"
    return re.sub(r"^Return True (if|once|for|where) ", "", text)


def _refused(kind: type[Action]) -> str:
    intent = Intent(7, kind.stored, None, 0.0)
    stays = [kind.stays_open(intent, words) for words in ("not sent", "refused for job 7")]
    return {(True, True): "stays open", (False, True): "stays open if Slurm itself says so"}.get(
        (stays[0], stays[1]), "closed"
    )


if __name__ == "__main__":
    main()
