"""Rows for people and for machines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import shorten

from kunport.survey.row import Row
from kunport.text import parameters, visible
from kunport.version import VERSION

FORMAT = 1  # raised when a field changes its meaning or goes
_REASON = 200  # characters of a reason that text shows; JSON has the whole
SCHEMA = Path(__file__).with_name("schema.json")


def as_text(rows: Sequence[Row]) -> str:
    """A line for each row, and totals."""
    return "\n".join(_lines(rows)) + "\n"


def as_json(rows: Iterable[Row]) -> str:
    """The rows as ``schema.json`` beside this file describes them."""
    document = {
        "format": FORMAT,
        "kunport": VERSION,
        "rows": [row.as_dict() for row in rows],
    }
    return json.dumps(document, indent=2) + "\n"


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    width = max((len(row.verdict) for row in rows), default=0)
    for row in rows:
        subject = row.architecture or row.model
        facts = f"{row.layers} layers, {parameters(row.parameters)} parameters, {row.differences} unlike a Llama"
        text = facts if row.architecture else ""
        if row.reason:
            text = "; ".join(filter(None, (text, shorten(row.reason, _REASON, placeholder=" ..."))))
        yield f"{row.verdict:<{width}}  {visible(subject):<40}  {visible(text)}"
    yield ""
    counts = Counter(row.verdict for row in rows)
    models = "1 model" if len(rows) == 1 else f"{len(rows)} models"
    yield f"{models}: {', '.join(f'{count} {verdict}' for verdict, count in counts.most_common())}"
