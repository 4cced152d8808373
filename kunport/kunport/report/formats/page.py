"""For a browser: one page that needs nothing but itself."""

from __future__ import annotations

from kunport.report.formats.answer import Answer
from kunport.report.page import render_page


def render(answer: Answer) -> str:
    """The answer as HTML."""
    return render_page(None, answer.description, answer.weights, beside=False) + "\n"
