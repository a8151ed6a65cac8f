"""Plain texts from templates; a site may have its own in a directory."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from . import formats

if TYPE_CHECKING:
    from jinja2 import Environment

_PACKAGE = __name__.rpartition(".")[0]
_FILTERS = ("amount", "duration", "moment")


def render_text(template: str, directory: str = "", /, **values: Any) -> str:
    """Return the text of *template*, that of *directory* if it has one; controls in *values* are made visible."""
    return _environment(directory).get_template(template).render(**formats.legible(values))


@cache
def _environment(directory: str) -> Environment:
    # Which a daemon without messages need not read.
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined

    own = [FileSystemLoader(directory)] if directory else []
    made = Environment(  # noqa: S701 - plain text for mails
        loader=ChoiceLoader([*own, PackageLoader(_PACKAGE)]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update({name: getattr(formats, name) for name in _FILTERS})
    return made
