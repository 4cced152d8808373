"""For machines: the report's JSON, as ``schema.json`` describes it."""

from __future__ import annotations

from kunport.report.document import as_json
from kunport.report.formats.answer import Answer


def render(answer: Answer) -> str:
    """The answer as JSON."""
    return as_json(None, answer.description, answer.weights)
