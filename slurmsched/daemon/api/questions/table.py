"""The table of questions: all that answers, schemas and commands know of each."""

from __future__ import annotations

from collections.abc import Mapping

from . import advice, deadlines, eta, gpus, jobs, queue, records
from .contract import Question

QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for part in (records, queue, gpus, jobs, advice, deadlines, eta)
    for question in part.QUESTIONS
}
"""The questions by name, in the order of lists."""
