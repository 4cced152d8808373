"""What `kunport analyze` prints, a file for each format: for a terminal, machines, readers and code hosts."""

from __future__ import annotations

from importlib import import_module

from kunport.report.formats.answer import Answer

__all__ = ["FORMATS", "Answer", "render"]

FORMATS = ("text", "json", "markdown", "html", "sarif")
_MODULES = {"html": "page", "json": "data"}


def render(answer: Answer, form: str) -> str:
    """The answer in one of `FORMATS`, as a document that ends in a line break."""
    module = import_module(f"kunport.report.formats.{_MODULES.get(form, form)}")
    document: str = module.render(answer)
    return document
