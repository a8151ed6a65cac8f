"""A process that plays compositions forward for its parent: ``python -m slurmsched.foresee.synthesis_worker FD``.

It is apart from the process of predictions, whose users wait for it. A request is ``PlayRequest``, an answer is (error,
scores).
"""

from __future__ import annotations

from ..child_process import serve
from ..decide.policy import Policy
from ..decide.synthesis import PlayRequest, Scores, SynthesisRules, scores_of
from ..errors import SlurmschedError
from .composition_outlooks import composition_outlooks


def answer(request: PlayRequest) -> tuple[str, Scores | None]:
    """Return the scores of the candidates, or the error."""
    try:
        rules = SynthesisRules.of(request.line)
        outlooks, undelayed = composition_outlooks(
            request.view,
            Policy.from_json(request.policy_json),
            request.candidates,
            request.config,
            request.ended,
            rules.arrivals_s,
        )
        return "", scores_of(outlooks, undelayed, rules)
    except (SlurmschedError, ValueError, IndexError, KeyError) as error:
        return f"{type(error).__name__}: {error}", None


if __name__ == "__main__":
    serve(answer)
