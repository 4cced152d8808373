"""The report as plain data, as ``schema.json`` beside this file describes it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kunport.version import VERSION

if TYPE_CHECKING:
    from kunport.analysis.weights import WeightProof
    from kunport.description import Description
    from kunport.validation.report import Report

FORMAT = 1  # raised when a field changes its meaning or goes; new fields do not raise it
SCHEMA = Path(__file__).with_name("schema.json")


def as_document(
    report: Report | None, description: Description | None = None, weights: WeightProof | None = None
) -> dict[str, Any]:
    """Everything that is known about a port, ready for JSON: numbers that are not finite become null.

    The verdict is the validation's, and the analysis's where there was no validation.
    """
    analysis = None if description is None else description.as_dict()
    validation = None if report is None else report.as_dict()
    judged = validation or analysis
    document = {
        "format": FORMAT,
        "kunport": VERSION,
        "verdict": judged["verdict"] if judged else "nothing was done",
        "analysis": analysis,
        "weights": None if weights is None else weights.as_dict(),
        "validation": validation,
    }
    plain: dict[str, Any] = _plain(document)
    return plain


def as_json(report: Report | None, description: Description | None = None, weights: WeightProof | None = None) -> str:
    """`as_document` as text that ends in a line break."""
    return json.dumps(as_document(report, description, weights), indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
