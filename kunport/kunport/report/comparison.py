"""Two models side by side: every fact in which they differ."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kunport import text
from kunport.variants import Difference, ModelFacts
from kunport.variants.compare import Held


def comparison_text(left: ModelFacts, right: ModelFacts, differences: Sequence[Difference]) -> str:
    """A line for each difference: what the first model does, and what the second."""
    lines = [f"{left.architecture} ({left.model_type}) against {right.architecture} ({right.model_type})", ""]
    for each in differences:
        lines.append(f"{each.key}: {_side(each.left)} | {_side(each.right)}")
    lines.append(f"\n{counted(differences)}." if differences else "No fact differs.")
    return "\n".join(lines) + "\n"


def counted(differences: Sequence[Difference]) -> str:
    """How many facts differ."""
    return text.counted(len(differences), "fact", "differs", "differ")


def comparison_json(left: ModelFacts, right: ModelFacts, differences: Sequence[Difference]) -> str:
    """The same for machines; what is held as `kunport.variants` writes facts."""
    names = {side: facts.architecture for side, facts in (("left", left), ("right", right))}
    return json.dumps({"format": 1, **names, "differences": [each.as_dict() for each in differences]}, indent=2) + "\n"


def _side(held: Sequence[Held]) -> str:
    return ", ".join(map(_value, held)) or "absent"


def _value(held: Held) -> str:
    if held.fact is None:
        return "absent"
    return "not known" if held.fact.reason else json.dumps(held.fact.value)
