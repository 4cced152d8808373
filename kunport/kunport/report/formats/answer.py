"""What there is to say about an analysed model, before it takes a form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kunport_codegen.graph import Location

from kunport.description import Description, name_layers
from kunport.text import counted

if TYPE_CHECKING:
    from kunport.analysis.weights import WeightProof

UNKNOWN, WEIGHTS = "unknown", "weights"
ORDER = (
    "In a residual order, r keeps the residual, N is a norm, A attention or another mixer, "
    "M the MLP or experts, + adds."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to `kunport analyze`.

    Attributes:
        description: what the model is and does.
        weights: how its checkpoint fits; None without weights.
        folder: that the names of custom source files are relative to; None where all source is the library's.
    """

    description: Description
    weights: WeightProof | None = None
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that a reader who knows Llama should look at.

    Attributes:
        rule: the variant's key (``attention.softcap``), the title of what is no fact, ``unknown`` or ``weights``.
        level: ``note`` (differs), ``warning`` (no name for it) or ``error`` (not understood, does not fit).
        text: the thing itself.
        where: source line; None for what no line of source does.
    """

    rule: str
    level: str
    text: str
    where: Location | None


def remarks(answer: Answer) -> Iterator[Remark]:
    """All that differs from a Llama, is not understood, or does not fit."""
    description = answer.description
    for title, lines in description.groups.items():
        for line in lines:
            if not line.usual:
                layers = name_layers(line.layers, description.layers)
                level = "warning" if title == "operators without a name" else "note"
                yield Remark(
                    _variant(line.key) or title, level, f"{line.text} [{layers}]" if layers else line.text, line.where
                )
    for key, fact in description.facts.walk() if description.facts is not None else ():
        if fact.reason:
            yield Remark(_variant(key), "warning", f"{key} is not known: {fact.reason}", fact.where)
    for unknown in description.unknowns:
        yield Remark(UNKNOWN, "error", unknown.reason, unknown.where)
    for fault in answer.weights.faults if answer.weights is not None else ():
        yield Remark(WEIGHTS, "error", str(fault), None)


def _variant(key: str) -> str:
    """A fact's key without the name of a norm: ``norm.kind``."""
    return re.sub(r"\[.*\]", "", key)


def verdict(description: Description) -> str:
    """Whether every operation is understood, as a sentence."""
    if description.understood:
        opaque = len(description.opaque)
        if not opaque:
            return "Understood: every operation."
        return f"Partly understood: every operation is read, but {counted(opaque, 'fact', 'is', 'are')} not known."
    count = len(description.unknowns)
    return f"{description.architecture} cannot be ported yet: {count} thing{'s' if count > 1 else ''} in the way."


__all__ = ["ORDER", "UNKNOWN", "WEIGHTS", "Answer", "Remark", "remarks", "verdict"]
