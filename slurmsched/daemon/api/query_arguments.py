"""The arguments of a query; AnswerRefused says what is wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...cluster.records.scope import Scope
from ...errors import SlurmschedError

QUEUE_MOST = 10_000  #: rows in one answer
QUEUE_USUAL = 500
DAYS_MOST = 3650
WEEK_S = 7 * 86_400.0
SPAN_LEAST_S, SPAN_MOST_S = 60.0, 400 * 86_400.0  #: of a report
JOBS_MOST = 100  #: in one query by job id
FILTERS = ("user", "partition", "account")
NAME_MOST = 256  #: characters of a name
OPTIONS_MOST = 2_000  #: characters of the options of a hypothetical job


class AnswerRefused(SlurmschedError):
    """The daemon refuses or cannot answer a query; the text is fit for the user who sent it."""


def job_id_of(request: Mapping[str, Any]) -> int:
    """Return the job that a query is about."""
    job_id = request.get("job_id")
    if type(job_id) is not int or not 0 < job_id < 2**32:
        raise AnswerRefused('"job_id" must be the number of a job, such as 1234')
    return job_id


def job_ids_of(request: Mapping[str, Any]) -> list[int]:
    """Return the jobs that a query is about."""
    job_ids = request["job_ids"]
    if not isinstance(job_ids, list) or not 0 < len(job_ids) <= JOBS_MOST:
        raise AnswerRefused(f'"job_ids" must be a list of 1 to {JOBS_MOST} numbers of jobs')
    return [job_id_of({"job_id": job_id}) for job_id in job_ids]


def options_of(request: Mapping[str, Any]) -> str:
    """Return the options of sbatch of a hypothetical job."""
    options = request.get("options")
    if not isinstance(options, str) or not 0 < len(options) <= OPTIONS_MOST:
        raise AnswerRefused(f'"options" must be the options of sbatch as one text of at most {OPTIONS_MOST}')
    return options


def filters_of(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the user, partition and account that listed jobs must have, as far as they were said."""
    filters = {name: request[f"only_{name}"] for name in FILTERS if f"only_{name}" in request}
    for name, value in filters.items():
        if not isinstance(value, str) or not 0 < len(value) <= NAME_MOST:
            raise AnswerRefused(f'"only_{name}" must be a name of at most {NAME_MOST} characters')
    return filters


def rows_to_skip(request: Mapping[str, Any]) -> int:
    """Return the number of rows before the first one wanted; 0 by default."""
    skip = request.get("skip", 0)
    if type(skip) is not int or skip < 0:
        raise AnswerRefused('"skip" must be a whole number, 0 or more')
    return skip


def days_of(request: Mapping[str, Any]) -> float | None:
    """Return the period of a query in days; None without one."""
    days = request.get("days")
    if days is None:
        return None
    if type(days) not in (int, float) or not 0 < days <= DAYS_MOST:
        raise AnswerRefused(f'"days" must be a number, above 0 and at most {DAYS_MOST}')
    return float(days)


def span_of(request: Mapping[str, Any]) -> float:
    """Return the length of the period of a report in seconds; a week without one."""
    span_s = request.get("span_s", WEEK_S)
    if type(span_s) not in (int, float) or not SPAN_LEAST_S <= span_s <= SPAN_MOST_S:
        raise AnswerRefused(f'"span_s" must be a number of seconds, {SPAN_LEAST_S:g} to {SPAN_MOST_S:g}')
    return float(span_s)


def scope_of(request: Mapping[str, Any]) -> Scope:
    """Return the jobs that a report shall be on."""
    names = filters_of(request)
    job_id = job_id_of(request) if "job_id" in request else 0
    return Scope(names.get("user", ""), names.get("account", ""), names.get("partition", ""), job_id)


def most_rows(request: Mapping[str, Any], usual: int = QUEUE_USUAL) -> int:
    """Return the number of rows wanted, *usual* by default."""
    limit = request.get("limit", usual)
    if type(limit) is not int or not 0 < limit <= QUEUE_MOST:
        raise AnswerRefused(f'"limit" must be a whole number, 1 to {QUEUE_MOST}')
    return limit
