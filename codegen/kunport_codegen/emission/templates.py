"""The templates: they only lay out, what they are given is source already."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import jinja2


@cache
def environment() -> jinja2.Environment:
    """The templates of this package, strict about what they are given."""
    loader = jinja2.FunctionLoader(lambda name: files("kunport_codegen.templates").joinpath(name).read_text("utf-8"))
    environment = jinja2.Environment(
        loader=loader,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
    environment.filters["code"] = code
    return environment


def code(value: object) -> str:
    """A value as code in Markdown, in a table's cell too; nothing in it can end that."""
    text = " ".join(str(value).split()).replace("`", "'").replace("|", "\\|")
    return f"`{text}`"
