"""The arguments of a query; AnswerRefused says what is wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import SlurmschedError

QUEUE_MOST = 10_000  #: rows in one answer
DAYS_MOST = 3650
WEEK_S = 7 * 86_400.0
SPAN_LEAST_S, SPAN_MOST_S = 60.0, 400 * 86_400.0  #: of a report
JOBS_MOST = 100  #: in one query by job id
NAME_MOST = 256  #: characters of a name
OPTIONS_MOST = 2_000  #: characters of the options of a hypothetical job

_TYPES: Mapping[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "array": (list,),
}
_WORDS = {"true": True, "false": False}


class AnswerRefused(SlurmschedError):
    """The daemon refuses or cannot answer a query; the text is fit for the user who sent it."""


class NotYet(AnswerRefused):
    """The daemon cannot answer a query at the moment: it has just started, or is busy."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a question."""

    name: str
    accepts: str  #: the accepted values, in words
    schema: Mapping[str, Any]  #: the JSON Schema of a value: its type and limits
    usual: Any = None  #: the value where none is given
    required: bool = False

    def of(self, request: Mapping[str, Any]) -> Any:
        """Return the value that *request* gives, or the usual one; AnswerRefused for one that is not accepted."""
        value: Any = request.get(self.name)
        if value is None and not self.required:
            return self.usual
        if not _fits(value, self.schema):
            raise AnswerRefused(f'"{self.name}" must be {self.accepts}')
        return float(value) if self.schema["type"] == "number" else value

    def of_text(self, text: str) -> Any:
        """Return the value that *text* spells, as commands and addresses have it; a text that spells none stays."""
        return _spelt(text, self.schema)


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Report whether *value* has the type of *schema* and keeps its limits; NaN keeps none."""
    if type(value) not in _TYPES[schema["type"]]:
        return False
    if isinstance(value, list):
        return schema["minItems"] <= len(value) <= schema["maxItems"] and all(_fits(x, schema["items"]) for x in value)
    if isinstance(value, str):
        return bool(schema["minLength"] <= len(value) <= schema["maxLength"])
    least, above, most = (schema.get(key) for key in ("minimum", "exclusiveMinimum", "maximum"))
    return (least is None or value >= least) and (above is None or value > above) and (most is None or value <= most)


def _spelt(text: str, schema: Mapping[str, Any]) -> Any:
    if schema["type"] == "array":
        return [_spelt(one, schema["items"]) for one in text.split(",")]
    if schema["type"] == "boolean":
        return _WORDS.get(text, text)
    try:
        return {"integer": int, "number": float}.get(schema["type"], str)(text)
    except ValueError:
        return text


def _name(of: str) -> Parameter:
    accepts = f"a name of at most {NAME_MOST} characters"
    return Parameter(f"only_{of}", accepts, {"type": "string", "minLength": 1, "maxLength": NAME_MOST})


def limit(usual: int) -> Parameter:
    """Return the parameter of the number of rows wanted, *usual* by default."""
    accepts = f"a whole number, 1 to {QUEUE_MOST}"
    return Parameter("limit", accepts, {"type": "integer", "minimum": 1, "maximum": QUEUE_MOST}, usual)


_JOB = {"type": "integer", "minimum": 1, "maximum": 2**32 - 1}
JOB = Parameter("job_id", "the number of a job, such as 1234", _JOB, required=True)
ONE_JOB = Parameter("job_id", JOB.accepts, _JOB, 0)
JOBS = Parameter(
    "job_ids",
    f"a list of 1 to {JOBS_MOST} numbers of jobs",
    {"type": "array", "items": _JOB, "minItems": 1, "maxItems": JOBS_MOST},
)
OPTIONS = Parameter(
    "options",
    f"the options of sbatch as one text of at most {OPTIONS_MOST}",
    {"type": "string", "minLength": 1, "maxLength": OPTIONS_MOST},
    required=True,
)
ONLY_PARTITION = _name("partition")
ONLY = (_name("user"), ONLY_PARTITION, _name("account"))
"""The user, partition and account that listed jobs must have."""
SKIP = Parameter("skip", "a whole number, 0 or more", {"type": "integer", "minimum": 0}, 0)
ALL = Parameter("all", "true or false", {"type": "boolean"}, False)
DAYS = Parameter(
    "days",
    f"a number, above 0 and at most {DAYS_MOST}",
    {"type": "number", "exclusiveMinimum": 0, "maximum": DAYS_MOST},
)
SPAN = Parameter(
    "span_s",
    f"a number of seconds, {SPAN_LEAST_S:g} to {SPAN_MOST_S:g}",
    {"type": "number", "minimum": SPAN_LEAST_S, "maximum": SPAN_MOST_S},
    WEEK_S,
)


def filters_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the user, partition and account that listed jobs must have, as far as they were said."""
    return {name.removeprefix("only_"): given[name] for name in (one.name for one in ONLY) if given[name]}
