"""Mixtures of experts: how the router chooses, and what an expert computes."""

from __future__ import annotations

from collections.abc import Iterator

from kunport.description.findings import Finding
from kunport.description.view import View, inside_layer, show


def describe(view: View) -> Iterator[Finding]:
    """Each mixture's router and experts."""
    for fact in view.facts.experts:
        scale = ", weights scaled to sum to 1" if fact.renormalize else ""
        router = inside_layer(fact.router_weight)
        chosen = f"{show(fact.top_k)} of {show(fact.experts)} experts by {fact.scoring} of {router}"
        layer = view.layer(fact.frame)
        yield Finding(f"{chosen}{scale}", fact.where, layer, usual=False)
        text = f"each expert: gated {fact.activation} ({inside_layer(fact.gate_up)}, {inside_layer(fact.down)})"
        yield Finding(text, fact.where, layer, usual=False)
