"""Pages from templates: one file each, with its style inside, that loads nothing and runs nothing."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from . import formats

if TYPE_CHECKING:
    from jinja2 import Environment

_PACKAGE = __name__.rpartition(".")[0]
_FILTERS = ("amount", "day", "duration", "moment", "percent")


def render(template: str, *, more_style: str = "", **values: Any) -> str:
    """Return the page of *template*; every text in *values* is escaped, and made visible where it is a control.

    Its policy lets a browser use no style but its own, and no script at all. *more_style* is ours: it is not escaped.
    """
    shown, style = formats.legible(values), _style() + Markup(more_style)  # noqa: S704
    return _environment().get_template(template).render(style=style, style_digest=_digest(style), **shown)


def policy_of_page() -> str:
    """Return the policy with which a server sends a page: its own style, its own forms, and nothing else."""
    kept = "base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    return f"default-src 'none'; style-src '{_digest(_style())}'; {kept}"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # which a daemon without pages need not read

    made = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update({name: getattr(formats, name) for name in _FILTERS})
    made.globals["share_of"] = formats.share_of
    return made


@cache
def _style() -> Markup:
    return Markup(files(_PACKAGE).joinpath("templates/style.css").read_text("utf-8"))  # noqa: S704


def _digest(style: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
