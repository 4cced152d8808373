"""The weight proof in sentences."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kunport.text import count

if TYPE_CHECKING:
    from kunport.analysis.weights import Ranks, WeightProof

_MOST = 20  # faults that are listed one by one


def weight_lines(proof: WeightProof) -> list[str]:
    """What was compared, what does not fit, over how many ranks it can be cut, and what headers cannot tell."""
    shapes = "" if proof.faults else ", shapes right"
    lines = [f"{_tensors(proof.keys)} in the checkpoint; {count(proof.filled)} of the model's filled{shapes}"]
    if proof.tied:
        lines.append(f"filled by another tensor: {', '.join(proof.tied)}")
    if proof.ignored:
        lines.append(f"left aside, as the source says: {_tensors(len(proof.ignored))}, {proof.ignored[0]} for one")
    lines += [f"not proved: {path}: {reason}" for path, reason in proof.unproved.items()]
    lines += [str(fault) for fault in proof.faults[:_MOST]]
    if rest := Counter(fault.kind for fault in proof.faults[_MOST:]):
        lines.append(f"and {', '.join(f'{number} more {kind}' for kind, number in rest.items())}")
    lines += rank_lines(proof.ranks)
    if proof.proved:
        lines.append("Each tensor is used once and fits. (Exchanged tensors of equal shape do not show in headers.)")
    return lines


def rank_lines(ranks: Ranks) -> list[str]:
    """Which numbers of tensor-parallel ranks divide the model, and what is in the way of the others."""
    possible = [str(number) for number, reasons in ranks.possible.items() if not reasons]
    lines = [f"tensor-parallel ranks: {', '.join(possible)}"]
    lines += [f"not {number}: {reasons[0]}" for number, reasons in ranks.possible.items() if reasons]
    if ranks.unknown:
        lines.append(f"more ranks: not known, since {ranks.unknown}")
    return lines


def _tensors(number: int) -> str:
    return f"{count(number)} tensor" + "s" * (number != 1)
