"""What was recognised in the source, in sentences with file and line, for the README."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kunport_codegen.emission.templates import code
from kunport_codegen.expression import Scalar, render
from kunport_codegen.facts import Attention, Experts, Facts, Norm, Number, Rope
from kunport_codegen.graph import Location


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the source does: what, how often, and where the first time."""

    text: str
    count: int
    where: Location


def findings(facts: Facts) -> list[Finding]:
    """The facts, those that read alike in one line, in order of first appearance."""
    said = [(_norm(fact), fact.where) for fact in facts.norms]
    said += [(_rope(fact), fact.where) for fact in facts.ropes]
    said += [(_attention(fact), fact.where) for fact in facts.attentions]
    said += [(_experts(fact), fact.where) for fact in facts.experts]
    counts: dict[str, list[Location]] = {}
    for text, where in said:
        counts.setdefault(text, []).append(where)
    return [Finding(text, len(places), places[0]) for text, places in counts.items()]


def _norm(fact: Norm) -> str:
    kind = {"rms": "RMS norm", "layer": "Layer norm", "l2": "L2 norm"}[fact.kind]
    weight = f"{fact.offset:g} + weight" if fact.offset else "weight" if fact.weight else "no weight"
    cast = {"before_weight": ", cast before the weight", "after_weight": ", cast after the weight", "none": ""}.get(
        fact.cast, ", the root cast"
    )
    head = " of a head" if fact.per_head else ""
    return f"{kind}{head} with {weight}{' and bias' if fact.bias else ''}{cast}, epsilon {_number(fact.epsilon)}"


def _rope(fact: Rope) -> str:
    style = "halves" if fact.style == "half" else "neighbouring elements"
    table = fact.table
    origin = "by frequencies of its own" if table.own else f"{table.rope_type} table from config.{table.parameters}"
    return f"Rotary embedding over {style}, {_number(table.rotary_dim)} elements of a head, {origin}"


def _attention(fact: Attention) -> str:
    parts = [
        f"Attention with {_number(fact.heads)} heads over {_number(fact.kv_heads)}",
        f"scale {_number(fact.scale)}",
    ]
    if fact.window is not None:
        parts.append(f"a window of {_number(fact.window)} keys")
    if fact.softcap is not None:
        parts.append(f"scores capped softly at {_number(fact.softcap)}")
    if fact.sinks:
        parts.append("a learned sink per head")
    return ", ".join(parts)


def _experts(fact: Experts) -> str:
    if fact.scoring is None:
        return f"Experts: {_number(fact.top_k)} of {_number(fact.experts)}, by a router of the model's own"
    weights = "weights renormalised" if fact.renormalize else "weights as they are"
    return f"Experts: {_number(fact.top_k)} of {_number(fact.experts)} by {fact.scoring}, {weights}"


def _number(value: Number) -> str:
    return render(value.expr) if isinstance(value, Scalar) else repr(value)


def lines(found: Iterable[Finding]) -> list[str]:
    """Lines of a list in Markdown."""
    return [
        f"{finding.text}{f' ({finding.count} times)' if finding.count > 1 else ''}: {code(finding.where)}"
        for finding in found
    ]
